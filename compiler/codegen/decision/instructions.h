#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"

/// Selects the nests that compute their products with an instruction of the target (instruction/product_instruction.h).
namespace tessera::compiler::codegen {

/// Lets each nest of the phases that are not yet planned use an instruction: of each kind the first one that applies,
/// among kinds the one whose kernel takes the fewest cycles.
void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// Applies the instructions that the tree's leaves name. Errors: INVALID_SCHEDULE with the leaf's path and the reason,
/// when the target has no such instruction or the nest cannot use it.
absl::Status applyInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree);

}  // namespace tessera::compiler::codegen
