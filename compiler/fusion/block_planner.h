#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/lagrange.h"
#include "compiler/fusion/movement.h"

namespace tessera::compiler::fusion {

/// Loop order and block sizes of a chain for one memory level.
struct BlockPlan {
  Order order;
  Tiles tiles;
  Movement movement;
  RealSolution real;   ///< the solution before rounding
  int orders = 0;      ///< permutations examined
  int structures = 0;  ///< distinct structures of data movement
};

struct BlockOptions {
  IntermediateExtent intermediates = IntermediateExtent::kRetained;
  Tiles lower, upper;  ///< additional bounds per loop; empty: none
  Order outside = {};  ///< loops that run outside all others, in this order
};

/// Chimera: for every order of the independent loops, minimizes DV, the bytes moved, while MU, the bytes held at once,
/// is at most the capacity, and rounds the block sizes to integers (equations 3.14 to 3.19 of the thesis). Returns the
/// best of all orders. Loops that access every tensor run outermost, because they never cause repeated movement there;
/// loops taken whole are not ordered. RESOURCE_EXHAUSTED if not even the smallest blocks fit.
absl::StatusOr<BlockPlan> planBlocks(const Chain& chain, double capacity_bytes, const BlockOptions& options = {});

/// Like planBlocks() for one given order.
absl::StatusOr<BlockPlan> planBlocksFor(const Chain& chain, const Order& order, double capacity_bytes,
                                        const BlockOptions& options = {});

}  // namespace tessera::compiler::fusion
