#include "workers/cores.h"

#include <sched.h>

#include <algorithm>

namespace tessera::worker {

std::vector<int> allowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> cpusOfTask(v1::CoreUse use, int first, int threads, int measuring, const std::vector<int>& allowed) {
  const int count = static_cast<int>(allowed.size()), others = count - measuring;
  if (measuring <= 0 || others <= 0) return {};
  if (use == v1::OTHERS) return {allowed.begin(), allowed.begin() + others};
  if (use != v1::MEASURING || first < 0 || first + threads > measuring) return {};
  return {allowed.begin() + others + first, allowed.begin() + others + first + threads};
}

}  // namespace tessera::worker
