#pragma once

#include "compiler/backends/spatial/program.h"
#include "compiler/backends/spatial/shared_cache.h"

namespace tessera::compiler::simulator {

/// Bytes moved through a memory or cache, summed over all units.
struct Traffic {
  std::string memory;
  int64_t read_bytes = 0, written_bytes = 0;
  double picojoules = 0;
};

/// The time of a program, from the description's times, step by step.
struct Timeline {
  double cycles = 0;  ///< of the unit that finishes last
  int64_t calls = 0;  ///< of all units
  int64_t copies = 0, fills = 0;
  std::vector<Traffic> traffic;  ///< memories, then caches
  /// points of the operator divided by the points that all units could compute in that time
  double utilization = 0;
  /// the busiest resource, the unit's multipliers or a memory's port: "array", "HBM read"
  std::string busiest;
  double busy = 0;               ///< its share of the cycles, on the unit that finishes last
  double unit_cycles = 0;        ///< cycles in which that unit issues calls
  double vector_cycles = 0;      ///< cycles in which a vector unit computes the epilogue for that unit
  double vector_operations = 0;  ///< of the epilogue, on all units
  double picojoules = 0;         ///< of all traffic and calls; 0 if the chip describes no energy

  int64_t steps() const { return calls + copies + fills; }
};

/// Each memory has a read port and a write port, and the unit issues calls in order. A step begins when its inputs are
/// available, the data it overwrites has been read, and its ports (or the unit) are free; the copies of a double buffer
/// alternate. A copy takes the larger of its bytes divided by the two ports' bandwidths. A call is issued
/// cycles_per_issue after the one before it, and latency_cycles after the one that wrote its destination. A tile of a
/// tensor that a cache holds (LRU replacement) arrives at the cache's bandwidth, otherwise at that of the tensors'
/// memory. Bandwidths are per unit, and shared levels are divided equally. Fails with RESOURCE_EXHAUSTED for programs
/// with more than kMaxSteps copies and groups of calls.
/// The epilogue runs on a vector unit, or on the instructions' own unit if it names that one; vector units are divided
/// evenly among the units.
/// `once`: a copy reads elements of a tensor that several of its blocks hold once, as a transfer unit does that unfolds
/// windows; otherwise once for each block.
/// `warm`: tensors (in the order of Program::buffers) that a cache holds before; the cache serves all their reads.
absl::StatusOr<Timeline> timelineOf(const Program& program, bool once = false, const WarmTensors& warm = {});

/// Copies, fills and groups of calls that timelineOf() walks on all units, assuming that no tile is cut.
double stepsOf(const Program& program);

inline constexpr int64_t kMaxSteps = 1 << 23;

}  // namespace tessera::compiler::simulator
