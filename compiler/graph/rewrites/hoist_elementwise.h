#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Moves elementwise operations from after views, transposes and slices of a product to the product, which computes
/// them in registers: elementwise work after a transposed convolution or a pixel shuffle is done before its results are
/// moved. Other operands must be constants of few elements (the channels' factors and biases), which are reshaped
/// accordingly. Applies only if the movement is not a view alone (sinkViews), and a slice keeps most elements. Returns
/// the number of operations moved.
int hoistElementwise(mlir::func::FuncOp main);

}  // namespace tessera::compiler
