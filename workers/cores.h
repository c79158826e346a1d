#pragma once

#include <vector>

#include "tessera/v1/worker_service.pb.h"

/// CPUs on which a task's process may run. The last CPUs of a machine are reserved for timed runs.
namespace tessera::worker {

/// CPUs that this process may use, ascending.
std::vector<int> allowedCpus();

/// CPUs of `allowed` for a task; empty: all. `threads` and `first` apply to timed tasks on the `lent` reserved CPUs.
std::vector<int> cpusOfTask(v1::CoreUse use, int first, int threads, int lent, const std::vector<int>& allowed);

}  // namespace tessera::worker
