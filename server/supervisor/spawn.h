#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::server {

/// Starts a program in a process group of its own, with no signal blocked, that the kernel kills when the
/// calling thread ends. What the program prints goes to this process's
/// diagnostics (standard error).
absl::StatusOr<pid_t> spawnBound(const std::vector<std::string>& command);

}  // namespace tessera::server
