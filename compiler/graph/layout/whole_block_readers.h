#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

/// Operations that read the leading part of a larger tensor of whole blocks.
namespace tessera::compiler {

/// Whether the elementwise `reader` of `cut` can compute the whole tensor of shape `whole` that `cut` is taken from.
/// Its other operands must be constant over the part that is cut off, or known at compile time.
bool canComputeWhole(mlir::linalg::GenericOp reader, mlir::Value cut, llvm::ArrayRef<int64_t> whole);

/// Makes the reader of `slice` compute the whole tensor and slices its result instead; returns that slice. Requires
/// canComputeWhole() and that nothing else reads the slice. Constants are filled up with zeros.
mlir::tensor::ExtractSliceOp sinkSlice(mlir::linalg::GenericOp reader, mlir::tensor::ExtractSliceOp slice);

}  // namespace tessera::compiler
