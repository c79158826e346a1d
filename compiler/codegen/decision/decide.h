#pragma once

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/phases.h"

/// From a bufferized workload to phases with a plan for every nest: by analysis, or as given by a tile tree.
namespace tessera::compiler::codegen {

/// Chooses every decision by analysis. Errors: as defaultSchedule.
absl::StatusOr<PhaseList> choosePhases(mlir::func::FuncOp func, const Chip& chip, const ScheduleRequest& request);

/// Chooses nothing: all decisions come from `schedule`. Replaces the vector width of `chip` by that of the schedule.
/// Errors: INVALID_SCHEDULE with the path of the tile at fault.
absl::StatusOr<PhaseList> applySchedule(mlir::func::FuncOp func, Chip& chip, const v1::Schedule& schedule);

}  // namespace tessera::compiler::codegen
