#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::server::simulation {

/// Result of one seed.
struct Outcome {
  std::string options;                ///< as text
  std::vector<std::string> problems;  ///< violated invariants
  std::vector<std::string> trace;     ///< events, if requested
  uint64_t trace_hash = 0;            ///< equal for equal runs
  int64_t steps = 0;
  int64_t settled_us = 0;  ///< from the end of the faults until the last job ended
  int jobs = 0;
  int succeeded = 0;
};

/// Runs clients, workers, network and the real scheduler as events of one loop. First the faults of the seed's options
/// happen. Then they end, and every job must end within kSettleUs of simulated time.
Outcome simulate(uint64_t seed, bool keep_trace = false);

inline constexpr int64_t kSettleUs = int64_t{300} * 1'000'000;

}  // namespace tessera::server::simulation
