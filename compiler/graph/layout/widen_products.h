#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products of 8-bit integers by constant weights read integers of 16 bits, on chips whose instructions add up
/// products of 16 bits only (vpmaddwd): elements are widened once, weights before the first run and activations where
/// they are written, and not in every tile that loads them. Weights whose pairs are narrow (narrow_pairs.h) stay in 8
/// bits, and so do products that take longer to read wider operands than they gain. Returns the number of products.
int widenProducts(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
