#pragma once

#include <vector>

#include "tessera/v1/worker_service.pb.h"

/// On which processors a task's process may run. The last ones of a machine are lent to what is timed.
namespace tessera::worker {

/// Those that this process may use, ascending.
std::vector<int> allowedCpus();

/// Of `allowed`; empty: all of them. `threads` and `first` are of a task that is timed on lent cores.
std::vector<int> cpusFor(v1::CoreUse use, int first, int threads, int lent, const std::vector<int>& allowed);

}  // namespace tessera::worker
