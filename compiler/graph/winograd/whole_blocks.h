#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

/// Rewrites of the operations after a convolution in Winograd's domain. The output transform computes whole blocks of
/// rows and columns; a slice then cuts off the rows and columns beyond the convolution's result.
namespace tessera::compiler {

/// Moves that slice past the elementwise operations that read it, which then compute whole blocks. They can thereby be
/// fused with the output transform instead of taking a pass over memory. Their other operands must be constant along
/// the rows and columns that are cut off, and their readers must be able to read a slice in place. Returns the number
/// of operations moved. Runs after applyWinograd.
int sinkSlicePastElementwise(mlir::func::FuncOp main);

/// For a result that is computed slice by slice and then padded: widens the padding so that the padded extent is a
/// multiple of the slice. Returns the number of changes. Runs after sharePads.
int alignSlices(mlir::func::FuncOp main);

}  // namespace tessera::compiler
