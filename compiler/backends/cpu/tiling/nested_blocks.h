#pragma once

#include "compiler/backends/cpu/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// Adds nested blocks around the tiles of a product for the chip's two farthest caches, with the least data movement
/// (Chimera, equations 3.20 and 3.21; compiler/fusion/nested_planner). `plan` is complete except for its grid. Leaves
/// it unchanged if an operand is not accessed as a box, or if all of it fits in the nearer cache.
void nestBlocks(const Nest& nest, const Chip& chip, TilePlan& plan);

}  // namespace tessera::compiler::codegen
