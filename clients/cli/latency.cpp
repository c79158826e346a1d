#include "clients/cli/latency.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "clients/cli/output.h"

namespace tessera::client {

Latency summarize(std::vector<double> times_ms) {
  Latency latency;
  latency.runs = static_cast<int>(times_ms.size());
  if (times_ms.empty()) return latency;
  std::sort(times_ms.begin(), times_ms.end());
  const auto rank = [&](double share) {
    const auto index = static_cast<size_t>(std::ceil(share * static_cast<double>(times_ms.size())));
    return times_ms[std::max<size_t>(index, 1) - 1];
  };
  const size_t middle = times_ms.size() / 2;
  latency.min = times_ms.front();
  latency.max = times_ms.back();
  latency.median = times_ms.size() % 2 ? times_ms[middle] : (times_ms[middle - 1] + times_ms[middle]) / 2;
  latency.p90 = rank(0.90);
  latency.p99 = rank(0.99);
  return latency;
}

std::string Latency::text() const {
  const auto text = [](double ms) { return millisecondsText(ms, 3); };
  return absl::StrFormat("median %s ms (min %s, p90 %s, p99 %s, max %s; %d runs)", text(median), text(min), text(p90),
                         text(p99), text(max), runs);
}

}  // namespace tessera::client
