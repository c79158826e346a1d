#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

/// How factors are rounded.
struct ProductRounding {
  v1::DataType to = v1::DATA_TYPE_BF16;  ///< or F16
  bool activations = false;              ///< whether products of two activations are rounded too
};

/// Lets products of f32 with a constant operand, convolutions among them, read both operands rounded to 16 bits; sums
/// stay in f32. An activation that is rounded for a product is stored in 16 bits, and its other readers (sums,
/// normalizations, functions) compute in f32 from that. Unchanged: products of two activations unless requested,
/// windows that work on each channel alone, and results of the model. Runs after constant folding, so that factors are
/// in the weights and are rounded with them once. Returns the number of products.
int roundProducts(mlir::func::FuncOp main, const ProductRounding& rounding = {});

}  // namespace tessera::compiler
