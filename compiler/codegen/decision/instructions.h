#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"

/// Which nests compute their products by an instruction of the target (instruction/product_instruction.h).
namespace tessera::compiler::codegen {

/// Each nest of the phases not yet planned takes up an instruction: of each kind the first that it can use, of several
/// kinds the one whose kernel takes the fewest cycles.
void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// Nests take up those that the tree's leaves name. Errors: INVALID_SCHEDULE with the leaf's path, and why, where the
/// target has no such instruction or the nest cannot use it.
absl::Status followInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree& tree);

}  // namespace tessera::compiler::codegen
