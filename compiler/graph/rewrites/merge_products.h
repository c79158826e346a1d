#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Matrix products with one common left operand and weights on the right become one product: the projections of
/// queries, keys and values, the gates of a recurrent cell. The weights are concatenated along their columns, which
/// constant folding does at compile time; the elementwise operations behind the products (a bias, an activation) are
/// merged with them while they are the same for all. What each product computed is a slice of the common result, read
/// in place by whoever reads it.
///
/// Not merged: products whose weights are computed at run time (joining them would be a copy), results the model
/// returns (they have a buffer of their own), products followed by different operations, which would lose them as
/// epilogues, and widths whose sum packs into narrower panels than one of them.
/// Returns the number of products that vanished: n products merged into one count n - 1.
int mergeProducts(mlir::func::FuncOp main);

}  // namespace tessera::compiler
