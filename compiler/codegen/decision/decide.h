#pragma once

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/phases.h"

/// From a bufferized workload to phases whose every plan is known: by analysis, or as a tree says.
namespace tessera::compiler::codegen {

/// Decides everything. Errors: as defaultSchedule.
absl::StatusOr<PhaseList> choosePhases(mlir::func::FuncOp func, const Chip& chip, const ScheduleRequest& request);

/// Decides nothing. The vectors of `chip` become those of the schedule. Errors: INVALID_SCHEDULE with the path of the
/// tile at fault.
absl::StatusOr<PhaseList> followSchedule(mlir::func::FuncOp func, Chip& chip, const v1::Schedule& schedule);

}  // namespace tessera::compiler::codegen
