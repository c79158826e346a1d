#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products of f32 with a constant operand, convolutions among them, read both operands rounded to bf16; sums stay
/// in f32. An activation that is rounded for a product is stored in bf16, and its other readers (sums, normalizations,
/// functions) compute in f32 from that. Unchanged: products of two activations, windows that work on each channel
/// alone, and results of the model. Runs after constant folding, so that factors are in the weights and are rounded
/// with them once. Returns the number of products.
int roundProducts(mlir::func::FuncOp main);

}  // namespace tessera::compiler
