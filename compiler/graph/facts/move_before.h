#pragma once

#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Moves what computes `value` before `op` where it stands behind it. For values that need nothing from between:
/// weights, constants, and views of them.
inline void moveBefore(mlir::Value value, mlir::Operation* op) {
  mlir::Operation* producer = value.getDefiningOp();
  if (!producer || producer->isBeforeInBlock(op)) return;
  for (mlir::Value operand : producer->getOperands()) moveBefore(operand, op);
  producer->moveBefore(op);
}

}  // namespace tessera::compiler
