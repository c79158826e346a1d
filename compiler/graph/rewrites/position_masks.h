#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A constant that elementwise operations read, and that has one value from some diagonal up to some other one and
/// another value elsewhere (the mask of a causal attention, with or without a window), becomes a comparison of
/// positions: nothing is read, and whoever computes the operation in blocks sees which blocks the mask removes
/// (compiler/ir/mask_bounds). Returns the number of operands replaced. To be called where constants are folded.
int comparePositions(mlir::func::FuncOp main, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
