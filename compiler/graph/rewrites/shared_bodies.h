#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Elementwise operations that are equal but for the numbers in their bodies: from so many different ones on the
/// numbers become operands.
inline constexpr int kMostEqualButForNumbers = 64;

/// Lets operations that differ in numbers of their bodies alone share one kernel where there are very many of them,
/// instead of one each: numbers in which they differ become scalar operands, all others stay. For the end of the
/// rewrites, which would fold them in again. Returns the number of operations that changed.
int shareBodiesOfManyNumbers(mlir::func::FuncOp main);

}  // namespace tessera::compiler
