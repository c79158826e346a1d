#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compiler {

/// One intermediate tensor: alive from the step that writes it to the last step that reads it, inclusive.
struct Lifetime {
  int64_t size_bytes = 0;
  int first_step = 0;
  int last_step = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< one per lifetime, multiples of 64
  int64_t arena_bytes = 0;
  int64_t peak_live_bytes = 0;  ///< largest sum of sizes alive in one step: no plan can need less
};

/// Places tensors in one arena so that those alive at the same time do not overlap.
///
/// Greedy orders are tried (largest, longest-lived, earliest first), each with best fit; the smaller
/// arena wins (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
/// find greedy-by-size within a few per cent of optimal). Deterministic; sizes are rounded up to 64.
MemoryPlan planMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace tessera::compiler
