#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Gives convolutions, and what lies between them, the layout NCHWc: [n, C/c, h, w, c].
///
/// c is `lanes` (f32 lanes of a vector register) if it divides the channels, else half of it; tensors with
/// other channel counts keep NCHW. One channel count has one block, so producer and consumer agree.
/// Filters become [K/k, C/c, kh, kw, c, k] and are packed at compile time; an output whose channels do
/// not divide is computed in zero-padded blocks and cut. The first convolution reads NCHW as it is:
/// its input channels are broadcast one at a time, so packing them would gain nothing.
/// Elementwise operations, pools, depthwise convolutions, reductions over h and w, padding and
/// concatenation follow the layout of their operands. Operands are transformed only at the border
/// between the two layouts. After Liu et al., "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019.
/// Returns the number of operations that now work on blocked tensors.
int assignChannelBlocks(mlir::func::FuncOp main, int64_t lanes);

/// Packs and unpacks of activations that remain.
int countLayoutTransforms(mlir::func::FuncOp main);

}  // namespace tessera::compiler
