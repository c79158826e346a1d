#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Moves views from between a product and the elementwise operations that follow it to behind them, so that
/// both have the same loops. Returns the number of operations that got other loops.
int sinkViews(mlir::func::FuncOp main);

}  // namespace tessera::compiler
