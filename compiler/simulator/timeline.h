#pragma once

#include "compiler/simulator/program.h"

namespace tessera::compiler::simulator {

/// What moved through a memory or cache, of all units together.
struct Traffic {
  std::string memory;
  int64_t read_bytes = 0, written_bytes = 0;
};

/// What a program takes by the description's times alone, step after step.
struct Timeline {
  double cycles = 0;  ///< of the unit that ends last
  int64_t calls = 0;  ///< of all units
  int64_t copies = 0, fills = 0;
  std::vector<Traffic> traffic;  ///< memories, then caches
  double utilization = 0;        ///< points of the operator in those that all units could have computed in that time
  std::string busiest;           ///< the unit's multipliers, or a memory's side: "array", "HBM read"
  double busy = 0;               ///< its share of the cycles, of the unit that ends last
  double picojoules = 0;         ///< of all traffic; 0 where no memory says what a byte takes

  int64_t steps() const { return calls + copies + fills; }
};

/// Each memory has a side that is read and one that is written, the unit issues calls in order. A step begins when what
/// it reads is there, what it overwrites was read, and its sides (or the unit) are free; copies of a buffer are taken
/// in turn. A copy takes the larger of its bytes by the two sides' bandwidths. A call is issued cycles_per_issue behind
/// the one before, and latency_cycles behind the one that wrote its destination. What a cache has kept of a tensor's
/// tiles (least recently used go first) comes at its bandwidth, else at the tensors' memory's. Bandwidths are of one
/// unit, and shared levels are taken in equal parts. Fails with RESOURCE_EXHAUSTED for programs of more than kMostSteps
/// copies and groups of calls.
absl::StatusOr<Timeline> timelineOf(const Program& program);

inline constexpr int64_t kMostSteps = 1 << 23;

}  // namespace tessera::compiler::simulator
