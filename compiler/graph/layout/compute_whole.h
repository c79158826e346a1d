#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

/// Readers of what is cut out of something larger from its first element on: blocks that are computed whole.
namespace tessera::compiler {

/// Whether the elementwise `reader` of `cut` can compute all that it was cut out of, whose shape is `whole`, instead.
/// What else it reads must be the same for all that is cut off, or be known at compile time.
bool canComputeWhole(mlir::linalg::GenericOp reader, mlir::Value cut, llvm::ArrayRef<int64_t> whole);

/// The reader of `slice` computes all, and what it computes is cut: returns that. Under canComputeWhole(), and where
/// nobody else reads the slice. Constants are filled up with zeros.
mlir::tensor::ExtractSliceOp cutBehind(mlir::linalg::GenericOp reader, mlir::tensor::ExtractSliceOp slice);

}  // namespace tessera::compiler
