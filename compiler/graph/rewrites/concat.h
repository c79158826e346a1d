#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// Chains of tensor.insert_slice that fill an empty tensor side by side along one dimension become
/// tensor.concat, which layout assignment and memory planning understand. Returns how many were found.
int recognizeConcats(mlir::func::FuncOp main);

/// A concatenation that begins with all parts of an earlier one begins with that one's result instead, so that a dense
/// block (Huang et al., "Densely Connected Convolutional Networks") grows one buffer and copies nothing. Returns how
/// many were nested.
int nestConcats(mlir::func::FuncOp main);

/// elementwise(concat(a, b)) -> concat(elementwise(a), elementwise(b)) where operations computed a and b for the
/// concatenation alone: they then do the elementwise operation while the values are in registers, and write their
/// part of the result, instead of a pass over the whole. Returns the number of operations split.
int splitElementwiseOfConcat(mlir::func::FuncOp main);

}  // namespace tessera::compiler
