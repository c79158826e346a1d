#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/value.h"

namespace tessera::storage {

/// An opaque token that names the last item of a page: URL-safe base64 of a PageCursor and its HMAC.
/// `fingerprint` stands for the query; the token fits no other one.
std::string makePageToken(std::string_view fingerprint, const std::vector<Value>& last, std::string_view key);

/// The last item's values. INVALID_ARGUMENT when the token was changed, is another database's, or
/// belongs to another filter or order.
absl::StatusOr<std::vector<Value>> readPageToken(std::string_view token, std::string_view fingerprint,
                                                 std::string_view key);

}  // namespace tessera::storage
