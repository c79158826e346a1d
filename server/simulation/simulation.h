#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::server::simulation {

/// What came of one seed.
struct Outcome {
  std::string options;                ///< what the seed stands for
  std::vector<std::string> problems;  ///< what should never be
  std::vector<std::string> trace;     ///< what happened, when it was asked for
  uint64_t trace_hash = 0;            ///< equal for equal runs
  int64_t steps = 0;
  int64_t settled_us = 0;  ///< from the end of the faults until the last job ended
  int jobs = 0;
  int succeeded = 0;
};

/// Clients, workers, network and the product's scheduler as events of one loop. First everything goes wrong that the
/// seed's options say; then the faults end, and within kSettleUs of simulated time every job must end.
Outcome simulate(uint64_t seed, bool keep_trace = false);

inline constexpr int64_t kSettleUs = int64_t{300} * 1'000'000;

}  // namespace tessera::server::simulation
