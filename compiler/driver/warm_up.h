#pragma once

#include "absl/status/status.h"

namespace tessera::compiler {

/// Compiles a workload and plans a model of one element for this machine, and discards the results. This registers
/// targets, dialects, passes, operators and the hash function, which otherwise slow down the first model of a process,
/// and creates the first model's context (graph/planning_context.h). Call it before a process forks (serve_forks.h): it
/// leaves no thread and no open file, and does not change later results.
absl::Status warmUp();

}  // namespace tessera::compiler
