#pragma once

#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Moves the producers of `value` before `op` where they come after it. For values that depend on nothing in between:
/// weights, constants, and views of them.
inline void moveBefore(mlir::Value value, mlir::Operation* op) {
  mlir::Operation* producer = value.getDefiningOp();
  if (!producer || producer->isBeforeInBlock(op)) return;
  for (mlir::Value operand : producer->getOperands()) moveBefore(operand, op);
  producer->moveBefore(op);
}

}  // namespace tessera::compiler
