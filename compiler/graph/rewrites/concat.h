#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// Replaces chains of tensor.insert_slice that fill an empty tensor along one dimension by tensor.concat, which layout
/// assignment and memory planning support. Returns the number of concatenations found.
int recognizeConcats(mlir::func::FuncOp main);

/// If a concatenation begins with all parts of an earlier one, replaces these by the earlier result, so that a dense
/// block (Huang et al., "Densely Connected Convolutional Networks") grows one buffer and copies nothing. Returns the
/// number of concatenations nested.
int nestConcats(mlir::func::FuncOp main);

/// elementwise(concat(a, b)) -> concat(elementwise(a), elementwise(b)) if operations computed a and b for the
/// concatenation alone. They then apply the elementwise operation in registers and write their part of the result,
/// without a pass over the whole. Returns the number of operations split.
int splitElementwiseOfConcat(mlir::func::FuncOp main);

}  // namespace tessera::compiler
