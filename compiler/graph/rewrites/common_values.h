#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Common subexpressions: of equal operations without effects the first stays, those that nothing reads go, in bodies
/// too. As MLIR's pass does it, which hashes operations without their bodies: hundreds that read the same values and
/// differ in their bodies alone are compared with each other there. Here bodies are part of the hash, so that it is
/// linear in the operations. Returns whether something changed.
bool mergeCommonValues(mlir::func::FuncOp main);

/// How many pairs of operations mergeCommonValues has compared in this thread: what a test holds against the size of
/// the graph.
int64_t comparedOperations();

}  // namespace tessera::compiler
