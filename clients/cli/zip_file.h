#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::client {

/// Hands every entry of a zip file to `use`, stored or deflated. INVALID_ARGUMENT names the file.
absl::Status forEachZipEntry(const std::string& path,
                             const std::function<absl::Status(const std::string& name, std::string bytes)>& use);

/// One entry's bytes; INVALID_ARGUMENT when the file is no zip or lacks it.
absl::StatusOr<std::string> readZipEntry(const std::string& path, const std::string& entry);

}  // namespace tessera::client
