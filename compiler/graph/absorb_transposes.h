#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets matrix products and convolutions read operands, and write results, through the access function of a
/// transpose next to them, where the innermost dimension stays innermost: splitting and merging attention
/// heads then moves no bytes. A transpose of the innermost dimension stays, because vectors run along it.
/// Returns the number of transposes absorbed.
int absorbTransposes(mlir::func::FuncOp main);

/// A linalg.generic that only permutes dimensions: result dimension d is source dimension permutation[d].
/// Empty for anything else.
llvm::SmallVector<int64_t> permutationOf(mlir::Operation* op);

}  // namespace tessera::compiler
