#pragma once

#include "absl/status/status.h"
#include "compiler/backends/cpu/phases.h"
#include "compiler/backends/cpu/tree/parsed_schedule.h"

namespace tessera::compiler::codegen {

/// Replaces all phases of `list` by the region of a tree, after a phase that fills panels if there are any. `list`:
/// before loops are merged. Errors: INVALID_SCHEDULE with the path of the tile that does not fit the workload;
/// INVALID_ARGUMENT as RegionGeometry::infer.
absl::Status applyRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedRegion& parsed);

}  // namespace tessera::compiler::codegen
