#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Replaces a constant operand of elementwise operations that has one value in a band of diagonals and another value
/// elsewhere (the mask of a causal attention, with or without a window) by a comparison of positions. Nothing is read
/// then, and blocked code can find the blocks that the mask removes (compiler/ir/mask_bounds). Returns the number of
/// operands replaced. Runs where constants are folded.
int comparePositions(mlir::func::FuncOp main, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
