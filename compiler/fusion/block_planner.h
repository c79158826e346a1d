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
  Order outside = {};  ///< loops that run outside of all others, in this order
};

/// Chimera: every order of the independent loops, the minimum of DV under MU <= capacity for each, rounded to
/// integers (equations 3.14 to 3.19), the best of all. Loops that access every tensor run outermost, where they
/// never force anything to move twice; loops taken whole
/// leave the order. RESOURCE_EXHAUSTED when not even the smallest blocks fit.
absl::StatusOr<BlockPlan> planBlocks(const Chain& chain, double capacity_bytes, const BlockOptions& options = {});

/// The same for one given order.
absl::StatusOr<BlockPlan> planBlocksFor(const Chain& chain, const Order& order, double capacity_bytes,
                                        const BlockOptions& options = {});

}  // namespace tessera::compiler::fusion
