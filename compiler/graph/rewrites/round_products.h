#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products of f32 with a constant operand, convolutions among them, read both operands rounded to bf16; they are
/// still summed up in f32. An activation that is rounded for a product is stored so, and what else reads it reads that:
/// sums, normalizations and functions are computed in f32 from it. Products of two activations, windows that work on
/// each channel alone, and results of the model stay as they are.
/// Behind folding of constants: what weights are multiplied with is in them by then, and rounded with them once.
/// Returns the number of products.
int roundProducts(mlir::func::FuncOp main);

}  // namespace tessera::compiler
