#pragma once

#include <string>

#include "absl/status/status.h"

namespace tessera::compiler {

/// INVALID_SCHEDULE about the tile at `path` ("0.2.1"; empty: the schedule itself): what is wrong, what was found, and
/// what is accepted there.
absl::Status scheduleFault(const std::string& path, const std::string& message, const std::string& found,
                           const std::string& accepted);

/// The path of child `position` of `path`.
std::string childPath(const std::string& path, int position);

}  // namespace tessera::compiler
