#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::server {

/// Starts a program in a process group of its own, with no signal blocked, that the kernel kills when the
/// calling thread ends. The program's own diagnostics go where this process's do.
absl::StatusOr<pid_t> spawnBound(const std::vector<std::string>& command);

}  // namespace tessera::server
