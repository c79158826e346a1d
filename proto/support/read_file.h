#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tessera {

/// Returns the content of a file. An error names the path; reading a folder is an error. (std::istreambuf_iterator
/// throws for a folder.)
absl::StatusOr<std::string> readFile(const std::string& path);

}  // namespace tessera
