#pragma once

#include "absl/status/status.h"

namespace tessera::compiler {

/// Compiles a workload of one element for this machine and forgets it: registers targets, dialects, passes and the
/// hash, which the first workload of a process pays for on top. For a process that is about to be forked
/// (serve_forks.h): starts no thread, opens nothing, and what is compiled afterwards is the same as without it.
absl::Status warmUp();

}  // namespace tessera::compiler
