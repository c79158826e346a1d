#pragma once

#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// Puts blocks within blocks around the tiles of a product: for the chip's two farthest caches, those of least movement
/// (Chimera, equations 3.20 and 3.21; compiler/fusion/nested_planner). `plan` is complete but for its grid. Leaves it
/// as it is where an operand is not walked as a box, or all of it fits in the nearer one.
void nestBlocks(const Nest& nest, const Chip& chip, TilePlan& plan);

}  // namespace tessera::compiler::codegen
