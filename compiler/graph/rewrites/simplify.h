#pragma once

#include "absl/status/status.h"
#include "compiler/ir/canonicalizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Turns named linalg operations into linalg.generic, so that later rewrites and workload identity see one
/// form. linalg.fill stays: it is how a reduction's start is recognized. Returns how many were rewritten.
int generalizeNamedOps(mlir::func::FuncOp main);

/// Broadcast operands of elementwise operations lose dimensions of extent one: a mask [1, s] read as (b, s) is
/// the vector [s] read as (s), which does not stand in the way of merging loops. Returns operands changed.
int dropUnitBroadcasts(mlir::func::FuncOp main);

/// Operations whose results nobody reads. Returns how many were removed; constants, empty tensors and fills, which
/// are no work of their own, are removed but not counted.
int removeDeadCode(mlir::func::FuncOp main);

/// Of operations that compute the same from the same operands, one remains: a normalization written out once for each
/// of queries, keys and values is computed once. Counted like dead code.
int eliminateDuplicates(mlir::func::FuncOp main);

/// MLIR's canonicalization, common subexpression elimination and dead code removal.
absl::Status canonicalizeGraph(mlir::func::FuncOp main, Canonicalizer& canonicalizer);

}  // namespace tessera::compiler
