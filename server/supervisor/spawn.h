#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::server {

/// Starts a program in a process group of its own, with no blocked signals. The kernel kills it when the calling thread
/// ends. Its output goes to this process's standard error. A secret is passed through a pipe, so that neither the
/// command line nor the environment shows it: "--token-fd" and the pipe's descriptor are added to the command.
absl::StatusOr<pid_t> spawnBound(std::vector<std::string> command, const std::string& secret = "");

}  // namespace tessera::server
