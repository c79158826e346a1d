#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Threshold: if more than this many different bodies are equal except for their floating-point constants, the
/// constants become operands.
inline constexpr int kMaxUnsharedBodies = 64;

/// Lets elementwise operations that differ only in floating-point constants of their bodies share one kernel, if there
/// are more than kMaxUnsharedBodies different bodies. Constants that differ become scalar operands; constants that
/// are equal in all bodies stay. Runs last, because other rewrites would fold the operands back. Returns how many
/// operations were changed.
int shareBodiesAcrossConstants(mlir::func::FuncOp main);

}  // namespace tessera::compiler
