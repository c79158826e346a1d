#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Eliminates common subexpressions and dead operations, inside bodies too. MLIR's pass hashes operations without their
/// bodies, so it compares all operations that read the same values and differ in their bodies with each other. This one
/// hashes bodies as well and is linear in the operations. Returns whether something changed.
bool mergeCommonValues(mlir::func::FuncOp main);

/// How many pairs of operations mergeCommonValues has compared in this thread: what a test holds against the size of
/// the graph.
int64_t comparedOperations();

}  // namespace tessera::compiler
