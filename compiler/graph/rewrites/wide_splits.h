#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Parts of one tensor that are read each by a kernel of its own, which has the part's offset in its code: from so many
/// on the tensor is cut first.
inline constexpr int kMostSplitParts = 64;

/// Where more parts of equal size are read of a tensor along one dimension, copies of kSplitFanOut neighbours each are
/// made, and of those again, until each copy has no more: parts at the same place of their copies are read by the same
/// kernel. Kernels are then a few dozen instead of one for each part; the tensor is read once more for each stage.
/// Returns how many tensors were cut.
int cutWideSplits(mlir::func::FuncOp main);

}  // namespace tessera::compiler
