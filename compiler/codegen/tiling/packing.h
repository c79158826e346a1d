#pragma once

#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Fills Phase::plans: a plan for each nest. The wanted schedule goes to the nest with the most iterations only,
/// a wanted "scalar-loops" to all of them.
void planPhases(PhaseList& list, const Machine& machine, const v1::Schedule& schedule);

/// Puts what the plans want packed into effect: panels in the workspace, a phase that fills them before the one
/// that reads them, and the reader's access functions turned to them. Call between planPhases and planWorkspace.
void packOperands(mlir::func::FuncOp func, PhaseList& list, const Machine& machine);

/// Turns input `wanted.input` of `nest` to panels in a new buffer; returns the nest that fills them, and its plan.
std::pair<Nest, TilePlan> packInput(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan,
                                    const PackedOperand& wanted, const Machine& machine);

}  // namespace tessera::compiler::codegen
