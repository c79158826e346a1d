#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::server {

/// Starts a program in a process group of its own, with no signal blocked, that the kernel kills when the
/// calling thread ends. What the program prints goes to this process's
/// diagnostics (standard error). A secret goes through a pipe, where neither the command line nor the environment shows
/// it: "--token-fd" and the pipe's number are added to the command.
absl::StatusOr<pid_t> spawnBound(std::vector<std::string> command, const std::string& secret = "");

}  // namespace tessera::server
