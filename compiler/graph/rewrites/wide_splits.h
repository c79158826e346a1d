#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// The most equal parts of one tensor that are read directly. Each reader has its part's offset in its code, so each is
/// a kernel of its own.
inline constexpr int kMostSplitParts = 64;

/// Copies a tensor of which more equal parts are read along one dimension: 32 neighbouring parts to a copy, in stages
/// if there are more than 32 copies. Readers of parts at the same place of their copies are equal, so a few dozen
/// kernels serve all parts; the cost is one more pass over the tensor for each stage. Returns how many tensors were
/// copied.
int cutWideSplits(mlir::func::FuncOp main);

}  // namespace tessera::compiler
