#pragma once

#include "absl/status/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Turns named linalg operations into linalg.generic, so that later rewrites and workload identity see one
/// form. linalg.fill stays: it is how a reduction's start is recognized. Returns how many were rewritten.
int generalizeNamedOps(mlir::func::FuncOp main);

/// Broadcast operands of elementwise operations lose dimensions of extent one: a mask [1, s] read as (b, s) is
/// the vector [s] read as (s), which does not stand in the way of merging loops. Returns operands changed.
int dropUnitBroadcasts(mlir::func::FuncOp main);

/// MLIR's canonicalization, common subexpression elimination and dead code removal.
absl::Status canonicalizeGraph(mlir::func::FuncOp main);

}  // namespace tessera::compiler
