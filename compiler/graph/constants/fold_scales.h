#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Folds per-channel affine steps after a convolution or matrix product (batch normalization, biases,
/// constant factors) into its weights and one bias:
///   ((x * w) + c - m) * a + b  ==  x * (w * a) + ((c - m) * a + b)   with a, b, c, m known per channel.
/// The new weights and bias are expressions that foldConstants evaluates. Returns the number of products changed.
int foldScales(mlir::func::FuncOp main);

}  // namespace tessera::compiler
