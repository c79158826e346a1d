#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Folds per-channel affine steps after a convolution or matrix product (batch normalization, biases, constant factors)
/// into its weights and one bias:
///   ((x * w) + c - m) * a + b  ==  x * (w * a) + ((c - m) * a + b)   with a, b, c, m known per channel.
/// The new weights and bias are expressions that foldConstants evaluates. A factor stays after the product if it is
/// infinite or NaN, or so large or small that scaled weights would leave the range of their type. `weights` is null for
/// a module without them, as in tests. Returns the number of products changed.
int foldScales(mlir::func::FuncOp main, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
