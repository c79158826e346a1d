#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/phases.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen {

/// The phases of a tile tree, with a plan for every nest. Chooses nothing: one tree gives one list of phases. Replaces
/// the vector width of `chip` by that of the schedule, and adds buffers and copies to the workload's function. Errors:
/// INVALID_SCHEDULE with the path of a tile that does not fit the workload, or that holds a setting without effect on
/// the code.
absl::StatusOr<PhaseList> applySchedule(const WorkloadAnalysis& workload, Chip& chip, const v1::Schedule& schedule);

}  // namespace tessera::compiler::codegen
