#pragma once

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Merges matrix products of slices of one tensor with the same weights into one product of the whole tensor: the
/// input's part of every step of an unrolled recurrent network. The weights are then read once instead of once a step,
/// and the rows of a register tile are filled. The result of each product is a slice of the common result, which its
/// readers read in place.
///
/// Applies if the slices cut one dimension other than the last and cover at least three quarters of it, since the
/// remaining rows are computed as well. Not applied to products of many rows, which gain nothing, to weights computed
/// at run time, and to results that the model returns (they have a buffer of their own). Returns the number of products
/// removed: n products stacked into one count n - 1.
int stackProducts(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
