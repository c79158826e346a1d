#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::server::gateway {

/// `length` bytes from `offset` on; never asked for what lies beyond the end.
using ReadRange = std::function<absl::StatusOr<std::string>(int64_t offset, int64_t length)>;

/// One entry of a zip file that is read in pieces where it lies, so that weights of gigabytes stay there. NOT_FOUND
/// without such an entry, DATA_LOSS when it is no zip, RESOURCE_EXHAUSTED when the entry is larger than `most` bytes.
absl::StatusOr<std::string> entryOf(int64_t size, const ReadRange& read, const std::string& entry, int64_t most);

}  // namespace tessera::server::gateway
