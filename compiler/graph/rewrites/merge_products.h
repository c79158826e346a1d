#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Merges matrix products with a common left operand and weights on the right into one product: the projections of
/// queries, keys and values, the gates of a recurrent cell. The weights are concatenated along their columns, which
/// constant folding does at compile time. Elementwise operations after the products (a bias, an activation) are merged
/// too while they are the same for all. The result of each product is a slice of the common result, which its readers
/// read in place.
///
/// Not merged: products whose weights are computed at run time (joining them would be a copy), results that the model
/// returns (they have a buffer of their own), products followed by different operations, which would lose their
/// epilogues, and widths whose sum packs into narrower panels than one of them. Returns the number of products removed:
/// n products merged into one count n - 1.
int mergeProducts(mlir::func::FuncOp main);

}  // namespace tessera::compiler
