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

/// What a worker asks of a started task program: to become one more task process (serve_forks.h).
struct ForkRequest {
  std::vector<std::string> arguments;    ///< as after the program's name
  std::vector<std::string> environment;  ///< "NAME=value"
  std::string working_folder;
  Limits limits;
  Isolation isolation;
};

/// What the program answers once the new process is the worker's own child: it gets ready by itself, and may never be.
struct ForkReply {
  Processes processes;  ///< where one failed, `first` is still to be waited for, if there is one
  ChildReport failed;   ///< error 0: there is such a process
};

/// Output, progress and report (child_setup.h) of the new process, and what it is given of known steps: -1: nothing.
using ForkDescriptors = std::array<int, 4>;

/// Sends one request through `socket` (SOCK_SEQPACKET). UNAVAILABLE when nobody listens any more.
absl::Status sendForkRequest(int socket, const ForkRequest& request, const ForkDescriptors& descriptors);

struct ReceivedFork {
  ForkRequest request;
  std::array<FileDescriptor, 4> descriptors;
};

/// Waits for the next request. Nothing: the other end is closed, or what came is no request.
std::optional<ReceivedFork> receiveForkRequest(int socket);

}  // namespace tessera::worker
