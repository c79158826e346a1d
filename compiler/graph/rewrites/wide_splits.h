#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// The most equal parts of one tensor that are read directly. Each reader has its part's offset in its code, so each
/// has its own kernel.
inline constexpr int kMostSplitParts = 64;

/// Copies a tensor with more equal parts that are read along one dimension: 32 neighbouring parts per copy, in stages
/// if there are more than 32 copies. Readers of the same part of different copies are equal, so a few dozen kernels
/// serve all parts, at the cost of one pass over the tensor per stage. Returns the number of tensors copied.
int stageWideSplits(mlir::func::FuncOp main);

}  // namespace tessera::compiler
