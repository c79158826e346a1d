#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Limit of equal parts of one tensor that are read in place. The offset of a part is a constant of its reader's code,
/// so each part needs a kernel of its own.
inline constexpr int kMaxSplitParts = 64;

/// Splits tensors with more than kMaxSplitParts equal parts in two or more stages, to limit the number of kernels. The
/// first stage copies groups of 32 neighbouring parts to tensors of their own (and groups of groups, if there are more
/// than 32 of them). Parts at the same position of different copies have equal readers, so a few dozen kernels serve
/// all parts; each stage costs one pass over the tensor. Returns the number of tensors copied.
int stageWideSplits(mlir::func::FuncOp main);

}  // namespace tessera::compiler
