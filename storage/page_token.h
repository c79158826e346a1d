#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/value.h"

namespace tessera::storage {

/// Makes an opaque token with the position after the last item of a page: URL-safe base64 of a PageCursor and its HMAC.
/// `fingerprint` identifies the query; the token is valid for no other.
std::string makePageToken(std::string_view fingerprint, const std::vector<Value>& last, std::string_view key);

/// Returns the last item's values. INVALID_ARGUMENT if the token was modified or belongs to another database, filter or
/// order.
absl::StatusOr<std::vector<Value>> readPageToken(std::string_view token, std::string_view fingerprint,
                                                 std::string_view key);

}  // namespace tessera::storage
