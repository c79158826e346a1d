#pragma once

#include "compiler/backends/cpu/region/region_panels.h"

namespace tessera::compiler::codegen {

/// Plans every nest of every variant (`nests`, in the order of region.variants) and fills their steps; steps that pack
/// operands precede the nests that read them. The variant with the most slices chooses the panels that slices share; a
/// variant that cannot use them reads the unpacked operand.
void decideSteps(mlir::OpBuilder& builder, const Chip& chip, std::vector<std::vector<RegionNest>>& nests,
                 Region& region, RegionPanels& panels);

}  // namespace tessera::compiler::codegen
