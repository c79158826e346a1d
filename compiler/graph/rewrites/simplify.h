#pragma once

#include "absl/status/status.h"
#include "compiler/ir/canonicalizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Turns named linalg operations into linalg.generic, so that later rewrites and workload identity see one form.
/// linalg.fill stays, since it marks the start of a reduction. Returns the number of rewrites.
int generalizeNamedOps(mlir::func::FuncOp main);

/// Removes dimensions of extent one from broadcast operands of elementwise operations: a mask [1, s] read as (b, s)
/// becomes the vector [s] read as (s), which does not prevent merging loops. Returns the number of operands changed.
int dropUnitBroadcasts(mlir::func::FuncOp main);

/// Removes operations whose results have no reader. Returns the number removed, without constants, empty tensors and
/// fills, which are no work.
int removeDeadCode(mlir::func::FuncOp main);

/// Keeps one of several operations that compute the same from the same operands: a normalization written once for each
/// of queries, keys and values is computed once. Counts like removeDeadCode().
int eliminateDuplicates(mlir::func::FuncOp main);

/// Runs MLIR's canonicalization, common subexpression elimination and dead code removal.
absl::Status canonicalizeGraph(mlir::func::FuncOp main, Canonicalizer& canonicalizer);

}  // namespace tessera::compiler
