#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Cuts off taps of windows that meet nothing but padding wherever the window stands: with taps as far apart as the
/// image is large (the branches of DeepLab's pyramid) only the middle ones meet any of it, and a 3x3 convolution is a
/// 1x1 convolution. Sums of products whose padding is zero. Returns the number of operations with fewer taps.
int dropIdleTaps(mlir::func::FuncOp main);

}  // namespace tessera::compiler
