#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compiler {

/// The size of a buffer and the first and last step that need it, both inclusive. A buffer is an intermediate tensor of
/// a model, a temporary of a workload, or a value between the nests of a region.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Arena {
  std::vector<int64_t> offsets;  ///< one per lifetime, multiples of 64 bytes
  int64_t bytes = 0;
  int64_t peak_live_bytes = 0;  ///< largest sum of live sizes in one step, a lower bound of any arena
};

/// Effort to make the arena small.
enum class Packing {
  kOnce,  ///< largest first, each at the lowest free offset: for plans that are made many times
  /// Tries several orders (largest, longest-lived, earliest first), each buffer in the tightest gap, and keeps the
  /// smallest arena. Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, find
  /// greedy-by-size within a few per cent of optimal.
  kSmallest,
};

/// Places buffers so that buffers with overlapping lifetimes do not overlap in memory. Deterministic. Sizes are rounded
/// up to 64; among equal sizes the earlier buffer comes first.
Arena packArena(const std::vector<Lifetime>& lifetimes, Packing packing);

}  // namespace tessera::compiler
