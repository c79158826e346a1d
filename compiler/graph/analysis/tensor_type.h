#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace tessera::compiler {

/// Returns the type of a ranked tensor. The value must be one.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Returns the type of a ranked tensor; null for another value.
inline mlir::RankedTensorType tensorTypeOrNull(mlir::Value value) {
  return mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
}

}  // namespace tessera::compiler
