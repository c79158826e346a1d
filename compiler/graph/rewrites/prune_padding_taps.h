#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Removes window taps that read padding at every position of the window. If taps are as far apart as the image is
/// large (the branches of DeepLab's pyramid), only the middle ones read the image, and a 3x3 convolution is a 1x1
/// convolution. Applies to sums of products with zero padding. Returns the number of operations with fewer taps.
int prunePaddingTaps(mlir::func::FuncOp main);

}  // namespace tessera::compiler
