#pragma once

#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Fills Phase::plans where they are empty: a plan for each nest, by analysis.
void planPhases(PhaseList& list, const Chip& chip, bool scalar);

/// The same from the leaves of a tree. Errors: INVALID_SCHEDULE, see planOf.
absl::Status followPhases(PhaseList& list, const Chip& chip, const FollowedTree& tree);

/// Puts what the plans want packed into effect: panels in the workspace, a phase that fills them before the one
/// that reads them, and the reader's access functions turned to them. Call between planPhases and planWorkspace.
/// The copies' plans are chosen, or with `followed` taken from its leaves.
/// Errors: INVALID_SCHEDULE when the leaves are not those of the copies.
absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree* followed);

/// A nest that copies an operand to panels, with its plan.
struct Copy {
  Nest nest;
  TilePlan plan;
};

/// Turns input `wanted.input` of `nest` to panels in a new buffer; returns the nest that fills them, and its plan: the
/// one of `leaf`, where there is one. `number`: of the nest. Errors: INVALID_SCHEDULE, see packPlanOf.
absl::StatusOr<Copy> packInput(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& wanted,
                               int number, const Chip& chip, const Leaf* leaf);

}  // namespace tessera::compiler::codegen
