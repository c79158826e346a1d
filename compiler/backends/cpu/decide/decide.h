#pragma once

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/phases.h"

namespace tessera::compiler::codegen {

/// Chooses every decision by analysis: the complete tile tree of the workload. Adds buffers and copying operations to
/// the workload's function, as it plans each nest on the panels that the nest would read. Errors: as defaultSchedule.
absl::StatusOr<v1::Schedule> decideSchedule(const WorkloadAnalysis& workload, const Chip& chip,
                                            const ScheduleRequest& request);

/// The phases of the default schedule if it had no region, without plans: operations fused, loops merged, products
/// rewritten for instructions.
PhaseList decideNests(const WorkloadAnalysis& workload, const Chip& chip);

}  // namespace tessera::compiler::codegen
