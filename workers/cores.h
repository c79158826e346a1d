#pragma once

#include <vector>

#include "tessera/v1/worker_service.pb.h"

/// CPUs on which a task's process may run. The last CPUs of a machine are its measuring cores, reserved for timed runs.
namespace tessera::worker {

/// CPUs that this process may use, ascending.
std::vector<int> allowedCpus();

/// Returns the CPUs of `allowed` for a task; empty: all. The last `measuring` of them are the measuring cores; a timed
/// task gets `threads` of these, starting with the one of index `first`.
std::vector<int> cpusOfTask(v1::CoreUse use, int first, int threads, int measuring, const std::vector<int>& allowed);

}  // namespace tessera::worker
