#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

/// What follows a convolution in Winograd's domain, whose results come in whole blocks and slices of these.
namespace tessera::compiler {

/// Lets elementwise operations that follow a stage's result, cut to the convolution's extents, compute whole blocks,
/// and cuts behind them: they join the stage, instead of a pass over memory. What else they read must be the same for
/// all rows and columns that are cut off, and who reads them reads in place. Returns the number of operations moved.
/// Behind applyWinograd.
int cutBehindFollowers(mlir::func::FuncOp main);

/// Gives results that are computed in slices and padded a border that ends where a slice does. Behind sharePads.
int alignSlices(mlir::func::FuncOp main);

}  // namespace tessera::compiler
