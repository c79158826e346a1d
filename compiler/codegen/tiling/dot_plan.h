#pragma once

#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// Products whose vectors run along the reduction: rows x columns sums, each of whose lanes is added up at the end.
void planDots(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Operands of dot products that do not lie along the reduction are copied so that they do.
void planDotMemory(const Nest& nest, const Wanted& wanted, TilePlan& plan);

}  // namespace tessera::compiler::codegen
