#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::client {

/// Hands every entry of a zip file to `use`, stored or deflated. INVALID_ARGUMENT names the file.
absl::Status forEachZipEntry(const std::string& path,
                             const std::function<absl::Status(const std::string& name, std::string bytes)>& use);

/// One entry's bytes; INVALID_ARGUMENT when the file is no zip, lacks it, or has more than `most` bytes of it: a little
/// that is deflated may be a lot.
absl::StatusOr<std::string> readZipEntry(const std::string& path, const std::string& entry, size_t most);

}  // namespace tessera::client
