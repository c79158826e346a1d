#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Merges each elementwise linalg operation into its only reader if that repeats no work: chains become one operation,
/// and casts and transposes move into their readers' access functions. Returns the number of operations merged.
int fuseElementwise(mlir::func::FuncOp main);

}  // namespace tessera::compiler
