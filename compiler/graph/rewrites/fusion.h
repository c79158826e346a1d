#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Merges each elementwise linalg operation into its only reader when that repeats no work: chains become
/// one operation, casts and transposes move into the access functions of what reads them.
/// Returns the number of operations merged.
int fuseElementwise(mlir::func::FuncOp main);

}  // namespace tessera::compiler
