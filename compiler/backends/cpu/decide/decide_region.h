#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/region/region_slices.h"
#include "compiler/target/chip.h"
#include "mlir/IR/Builders.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen {

/// Chooses everything about the region over slices along `loops` (empty: one slice): key groups of a mask, layouts,
/// plans, panels, strips and prefetches. Returns the phases of the tree: the region, after a phase of the copies that
/// all slices share if there are any. Errors: INVALID_ARGUMENT as inferNeeds, and when two slice loops walk one
/// dimension or there are too many kinds of slices.
absl::StatusOr<std::vector<v1::Tile>> decideRegion(mlir::OpBuilder& builder, SlicedNests nests,
                                                   llvm::SmallVector<SliceLoop> loops, const Chip& chip);

}  // namespace tessera::compiler::codegen
