#pragma once

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Matrix products of slices of one tensor with the same weights become one product of the whole tensor: the input's
/// share of every step of a recurrent network that was written out. The weights are then read once, not once a step,
/// and the rows of a register tile are filled. What each product computed is a slice of the common result, read in
/// place by whoever reads it.
///
/// Taken when the slices cut one dimension other than the last and cover at least three quarters of it: rows nobody
/// asked for are computed as well. Not taken: products of many rows, which gain nothing, weights computed at run time,
/// results the model returns (they have a buffer of their own). Returns the number of products that vanished: n
/// products stacked into one count n - 1.
int stackProducts(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
