#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets matrix products and convolutions read operands, and write results, through the access function of a
/// transpose next to them: splitting and merging attention heads then moves no bytes, nor does turning the keys.
/// Where the innermost dimension does not stay innermost, only operands of matrix products are absorbed: code
/// generation packs them by panels, if they are read often enough, while a result would be scattered from vectors.
/// Returns the number of transposes absorbed.
int absorbTransposes(mlir::func::FuncOp main);

}  // namespace tessera::compiler
