#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Runs the whole workload as one region as `chain` says (contract: v1::ChainTiling), after phases that pack operands
/// the slices share. To be called on what splitPhases returns, before loops are merged.
/// Errors: INVALID_ARGUMENT that names the operation and the dimension.
absl::Status formChain(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const v1::ChainTiling& chain);

/// Runs the whole workload as the region of a tree. To be called as formChain.
/// Errors: INVALID_SCHEDULE with the path of the tile that the workload cannot follow.
absl::Status followRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedRegion& followed);

/// Runs a workload of several phases slice by slice when all of them share outer parallel loops, nothing is computed
/// twice, and what one slice touches fits in half of a cache: softmax, normalizations, reductions with what follows
/// them over the same rows. Leaves all others as they are; true when it changed the list.
bool formRowRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// All nests of a list in program order; the buffers they write that are arguments are the results.
SlicedNests flattenPhases(const PhaseList& list);

/// Replaces all phases of `list` by one region over slices along `loops` (none: one slice) of the first result, after
/// a phase that fills panels where there are any. Errors: as formRegion; the list is as it was.
absl::Status cutIntoSlices(mlir::func::FuncOp func, PhaseList& list, SlicedNests nests,
                           llvm::SmallVector<SliceLoop> loops, const Chip& chip,
                           const FollowedRegion* followed = nullptr);

}  // namespace tessera::compiler::codegen
