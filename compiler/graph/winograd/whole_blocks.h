#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

/// Rewrites of operations after a convolution in Winograd's domain, whose results are whole blocks and slices of them.
namespace tessera::compiler {

/// Lets elementwise operations that follow the slice of a stage's result compute whole blocks, and moves the slice
/// after them. They then join the stage instead of taking a pass over memory. Their other operands must be constant
/// over the rows and columns that are cut off, and their readers must be able to read in place. Returns the number of
/// operations moved. Runs after applyWinograd.
int sinkSlicePastElementwise(mlir::func::FuncOp main);

/// Gives results that are computed in slices and padded a border that ends at a slice's end. Runs after sharePads.
int alignSlices(mlir::func::FuncOp main);

}  // namespace tessera::compiler
