#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Number of elementwise operations, equal except for numbers in their bodies, from which on the numbers become
/// operands.
inline constexpr int kMaxBodiesBeforeSharing = 64;

/// Lets operations that differ only in numbers of their bodies share one kernel if there are very many of them.
/// Differing numbers become scalar operands; equal ones stay. Runs last, because other rewrites would fold the operands
/// back. Returns the number of operations changed.
int shareBodiesAcrossConstants(mlir::func::FuncOp main);

}  // namespace tessera::compiler
