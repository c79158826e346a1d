#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products of 8-bit integers by constant weights read 16-bit integers, on chips whose instructions add products
/// of 16 bits only (vpmaddwd). Elements are widened once, weights before the first run and activations where they are
/// written, instead of at each load of a tile. Products stay in 8 bits if the pairs of their weights are narrow
/// (narrow_pairs.h) or if reading wider operands costs more than it gains. Returns the number of products.
int widenProducts(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
