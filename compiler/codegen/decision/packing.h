#pragma once

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Fills Phase::plans where they are empty: chooses a plan for each nest by analysis; plain loops if `request.scalar`.
void planPhases(PhaseList& list, const Chip& chip, const ScheduleRequest& request);

/// The same from the leaves of a tree. Errors: INVALID_SCHEDULE, see planOf.
absl::Status applyPhases(PhaseList& list, const Chip& chip, const ParsedSchedule& tree);

/// Carries out the packing that the plans request: allocates panels in the workspace, inserts a phase that fills them
/// before the phase that reads them, and redirects the reader's access functions to the panels. Call between planPhases
/// and planWorkspace. The copies' plans are chosen by analysis or, with `followed`, taken from its leaves. Errors:
/// INVALID_SCHEDULE when the leaves do not match the copies.
absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule* followed);

}  // namespace tessera::compiler::codegen
