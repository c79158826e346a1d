#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// A nest of a region, cut to the slices of one variant.
struct RegionNest {
  Nest nest;
  int number = 0;  ///< in program order
  int depth = 0;   ///< see RegionNestRun
  bool last = false;
};

/// Plans every nest of every variant (`nests`, in the order of region.variants) and fills their steps; steps that pack
/// operands precede the nests that read them. Panels that several variants read have the layout that the variant with
/// the most slices chose. A variant that cannot use this layout reads the unpacked operand. With `followed`, plans and
/// steps are those of the tree. Returns the panels allocated in scratch. Errors: INVALID_SCHEDULE with the path of a
/// leaf that does not belong to the next step or cannot run its nest.
absl::StatusOr<llvm::SmallVector<mlir::Value>> planRegion(mlir::OpBuilder& builder, const Chip& chip,
                                                          std::vector<std::vector<RegionNest>>& nests, Region& region,
                                                          std::vector<PackBefore>& before,
                                                          const ParsedRegion* followed);

}  // namespace tessera::compiler::codegen
