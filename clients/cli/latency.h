#pragma once

#include <string>
#include <vector>

namespace tessera::client {

/// Order statistics of run times, in milliseconds.
struct Latency {
  double min = 0, median = 0, p90 = 0, p99 = 0, max = 0;
  int runs = 0;

  /// "median 7.12 ms (min 7.01, p90 7.40, p99 7.52, max 7.60; 20 runs)".
  std::string text() const;
};

/// Percentiles by the nearest-rank rule; the median of an even count is the mean of the middle two.
Latency summarize(std::vector<double> times_ms);

}  // namespace tessera::client
