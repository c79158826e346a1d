#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Runs the whole workload as one region with the tiling `chain` (see v1::ChainTiling). Returns the phases of the tree:
/// the region, after a phase of the copies that all slices share if there are any. `list`: before loops are merged.
/// Errors: INVALID_ARGUMENT naming the operation and the dimension.
absl::StatusOr<std::vector<v1::Tile>> decideChain(mlir::func::FuncOp func, const PhaseList& list, const Chip& chip,
                                                  const v1::ChainTiling& chain);

/// The same for a workload of several phases that nobody asked to slice, if all of them share outer parallel loops,
/// nothing is computed twice, and the memory that one slice touches fits in half of a cache: softmax, normalizations,
/// reductions with consumers over the same rows. Nothing for other workloads.
std::optional<std::vector<v1::Tile>> decideRowRegion(mlir::func::FuncOp func, const PhaseList& list, const Chip& chip);

}  // namespace tessera::compiler::codegen
