#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Moves views between a product and its following elementwise operations to after these, so that all have the same
/// loops. Returns the number of operations whose loops changed.
int sinkViews(mlir::func::FuncOp main);

}  // namespace tessera::compiler
