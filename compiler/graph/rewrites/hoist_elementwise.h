#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Moves elementwise operations from behind views, transposes and slices of a product to the product, which computes
/// them in registers: what follows a transposed convolution or a pixel shuffle is done before its results take their
/// places. Other operands are constants of few elements (the channels' factors and biases); they take the shape that
/// they have there. Only where the movement is no view alone (sinkViews), and a slice leaves most. Returns the number
/// of operations moved.
int hoistElementwise(mlir::func::FuncOp main);

}  // namespace tessera::compiler
