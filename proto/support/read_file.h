#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tessera {

/// All that a file holds. An error names it; a folder is one. (An iterator over a stream's buffer throws of a folder.)
absl::StatusOr<std::string> readFile(const std::string& path);

}  // namespace tessera
