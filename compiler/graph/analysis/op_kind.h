#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// The kind of an operation of a model's main function, for grouping.
enum class OpKind {
  kView,         ///< expand_shape, collapse_shape: another shape over the same bytes, never a step
  kSlice,        ///< extract_slice at fixed offsets: its readers read the whole tensor at an offset
  kCloned,       ///< constants, empties, fills and scalar arithmetic: copied into each group that uses them
  kElementwise,  ///< linalg over parallel loops only, written in the order of its loops
  kReduction,    ///< linalg with reduction loops and one read per point: sums, maxima, norms
  kHeavy,        ///< contraction, convolution, pooling: each input element is read many times
  kPad,          ///< tensor.pad
  kOpaque,       ///< any other operation: a group of its own
};

OpKind kindOf(mlir::Operation* op);

/// Whether the operand's map names every loop exactly once, in order.
bool isIdentityAccess(mlir::linalg::LinalgOp op, mlir::OpOperand* operand);

/// Whether the operation only forwards or converts one input: transposes, broadcasts, casts.
bool isCheapToRepeat(mlir::linalg::GenericOp op);

/// Whether the operation slides a window over space and treats channels alike: pools, depthwise convolutions.
bool isChannelwiseWindow(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler
