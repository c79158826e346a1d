#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Runs the whole workload as one region with the tiling `chain` (see v1::ChainTiling), after phases that pack operands
/// shared by the slices. Call on the result of splitPhases, before loops are merged. Errors: INVALID_ARGUMENT naming
/// the operation and the dimension.
absl::Status formChain(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const v1::ChainTiling& chain);

/// Runs the whole workload as the region of a tree. Call at the same point as formChain. Errors: INVALID_SCHEDULE with
/// the path of the tile that the workload cannot follow.
absl::Status applyParsedRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip,
                               const ParsedRegion& followed);

/// Runs a workload of several phases slice by slice if all of them share outer parallel loops, nothing is computed
/// twice, and the memory that one slice touches fits in half of a cache: softmax, normalizations, reductions with
/// consumers over the same rows. Leaves other workloads unchanged. Returns whether it changed the list.
bool formRowRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// All nests of a list in program order. The results are those buffers they write that are arguments.
SlicedNests flattenPhases(const PhaseList& list);

/// Replaces all phases of `list` by one region over slices along `loops` (empty: one slice) of the first result, after
/// a phase that fills panels if there are any. Errors: as formRegion; the list is then unchanged.
absl::Status cutIntoSlices(mlir::func::FuncOp func, PhaseList& list, SlicedNests nests,
                           llvm::SmallVector<SliceLoop> loops, const Chip& chip,
                           const ParsedRegion* followed = nullptr);

}  // namespace tessera::compiler::codegen
