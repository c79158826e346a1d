#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/lagrange.h"
#include "compiler/fusion/movement.h"

namespace tessera::compiler::fusion {

/// Order and block sizes of a chain for one memory level.
struct BlockPlan {
  Order order;
  Tiles tiles;
  Movement movement;
  RealSolution real;   ///< what the block sizes were rounded from
  int orders = 0;      ///< permutations looked at
  int structures = 0;  ///< of different data movement
};

struct BlockOptions {
  Intermediates intermediates = Intermediates::kRetained;
  Tiles lower, upper;  ///< further bounds per loop; empty = none
};

/// Chimera: every order of the independent loops, the minimum of DV under MU <= capacity for each, rounded to
/// integers (equations 3.14 to 3.19), the best of all. Loops that access every tensor run outermost, where they
/// never force anything to move twice; loops taken whole
/// leave the order. RESOURCE_EXHAUSTED when not even the smallest blocks fit.
absl::StatusOr<BlockPlan> planBlocks(const Chain& chain, double capacity_bytes, const BlockOptions& options = {});

/// The same for one given order.
absl::StatusOr<BlockPlan> planBlocksFor(const Chain& chain, const Order& order, double capacity_bytes,
                                        const BlockOptions& options = {});

/// A level of on-chip memory.
struct Level {
  std::string name;
  double capacity_bytes = 0;
  double bytes_per_second = 0;  ///< to it from the next farther one
};

/// Nested blocks, innermost level first.
struct ChainPlan {
  std::vector<BlockPlan> levels;
  std::vector<double> seconds;  ///< Cost_d = DV_d / bw_d (equation 3.20)
  size_t slowest = 0;           ///< the level whose cost was minimized (equation 3.21)
};

/// Minimizes the slowest of the levels' costs with the blocks of each level inside of those of the next
/// (equation 3.21). Innermost level first, as in targets.
absl::StatusOr<ChainPlan> planChain(const Chain& chain, const std::vector<Level>& levels);

}  // namespace tessera::compiler::fusion
