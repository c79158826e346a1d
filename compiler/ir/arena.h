#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compiler {

/// A buffer and the steps it is needed in, both inclusive: a model's intermediate tensor, a workload's temporary, what
/// lies between the nests of a region.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Arena {
  std::vector<int64_t> offsets;  ///< one per lifetime, multiples of 64
  int64_t bytes = 0;
  int64_t peak_live_bytes = 0;  ///< largest sum of sizes alive in one step: no arena can be smaller
};

/// How much is tried to make the arena small.
enum class Packing {
  kOnce,  ///< largest first, each at the lowest place that is free: for plans that are made many times
  /// Several orders (largest, longest-lived, earliest first), each in the tightest gap; the smallest arena wins
  /// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, find greedy-by-size within
  /// a few per cent of optimal).
  kSmallest,
};

/// Places buffers so that those alive at the same time do not overlap. Deterministic; sizes are rounded up to 64, of
/// equal ones the earlier comes first.
Arena packArena(const std::vector<Lifetime>& lifetimes, Packing packing);

}  // namespace tessera::compiler
