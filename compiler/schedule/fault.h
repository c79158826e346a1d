#pragma once

#include <string>

#include "absl/status/status.h"

namespace tessera::compiler {

/// INVALID_SCHEDULE about the tile at `path` ("0.2.1"; empty: the schedule itself): the problem, the value found, and
/// the values accepted there.
absl::Status scheduleFault(const std::string& path, const std::string& message, const std::string& found,
                           const std::string& accepted);

/// The path of child number `position` of the tile at `path`.
std::string childPath(const std::string& path, int position);

}  // namespace tessera::compiler
