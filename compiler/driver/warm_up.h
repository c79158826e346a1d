#pragma once

#include "absl/status/status.h"

namespace tessera::compiler {

/// Compiles a workload and plans a model of one element for this machine and forgets them: registers targets, dialects,
/// passes, operators and the hash, which the first model of a process pays for on top, and makes the first one's
/// context (graph/workbench.h). For a process that is about to be forked (serve_forks.h): starts no thread, leaves
/// nothing open, and what is compiled afterwards is the same as without it.
absl::Status warmUp();

}  // namespace tessera::compiler
