#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Eliminates common subexpressions and dead operations, inside bodies too. MLIR's pass hashes operations without their
/// bodies, so it compares every pair of operations that read the same values and differ in their bodies. This one
/// hashes bodies as well and is linear in the number of operations. Returns whether anything changed.
bool mergeCommonValues(mlir::func::FuncOp main);

/// Returns the number of pairs of operations that mergeCommonValues has compared in this thread, for a test of its
/// complexity.
int64_t comparedOperations();

}  // namespace tessera::compiler
