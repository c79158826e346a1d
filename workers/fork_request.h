#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "workers/child_setup.h"
#include "workers/file_descriptor.h"
#include "workers/sandbox/isolation.h"
#include "workers/sandbox/limits.h"

namespace tessera::worker {

/// Request to a started task program to fork a task process (serve_forks.h).
struct ForkRequest {
  std::vector<std::string> arguments;    ///< arguments after the program's name
  std::vector<std::string> environment;  ///< "NAME=value"
  std::string working_folder;
  Limits limits;
  Isolation isolation;
};

/// Reply, sent once the new process is a child of the worker. The process is still setting itself up, and may never
/// finish.
struct ForkReply {
  Processes processes;  ///< if the fork failed, `first` may still have to be reaped
  ChildReport failed;   ///< error 0: the process exists
};

/// Output, progress and report (child_setup.h) of the new process, and its shared step cache (-1: none).
using ForkDescriptors = std::array<int, 4>;

/// Sends a request through `socket` (SOCK_SEQPACKET). UNAVAILABLE if the other end is closed.
absl::Status sendForkRequest(int socket, const ForkRequest& request, const ForkDescriptors& descriptors);

struct ReceivedFork {
  ForkRequest request;
  std::array<FileDescriptor, 4> descriptors;
};

/// Waits for the next request. Returns nothing if the other end is closed or the message is not a request.
std::optional<ReceivedFork> receiveForkRequest(int socket);

}  // namespace tessera::worker
