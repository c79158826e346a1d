#pragma once

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Fills Phase::plans where they are empty: a plan for each nest, by analysis; plain loops with `request.scalar`.
void planPhases(PhaseList& list, const Chip& chip, const ScheduleRequest& request);

/// The same from the leaves of a tree. Errors: INVALID_SCHEDULE, see planOf.
absl::Status followPhases(PhaseList& list, const Chip& chip, const FollowedTree& tree);

/// Puts what the plans want packed into effect: panels in the workspace, a phase that fills them before the one
/// that reads them, and the reader's access functions turned to them. Call between planPhases and planWorkspace.
/// The copies' plans are chosen, or with `followed` taken from its leaves.
/// Errors: INVALID_SCHEDULE when the leaves are not those of the copies.
absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree* followed);

}  // namespace tessera::compiler::codegen
