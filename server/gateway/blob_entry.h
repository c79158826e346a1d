#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::server::gateway {

/// Reads `length` bytes from `offset`. Never called for bytes beyond the end.
using ReadRange = std::function<absl::StatusOr<std::string>(int64_t offset, int64_t length)>;

/// Reads one entry of a zip file by its parts, so that gigabytes of weights in the file are not read. NOT_FOUND without
/// such an entry, DATA_LOSS if the file is no zip, RESOURCE_EXHAUSTED if the entry is larger than `most` bytes.
absl::StatusOr<std::string> entryOf(int64_t size, const ReadRange& read, const std::string& entry, int64_t most);

}  // namespace tessera::server::gateway
