#pragma once

#include "compiler/graph/facts/op_kind.h"

namespace tessera::compiler {

/// Behind views: the value whose bytes are shown in another shape.
inline mlir::Value rootOf(mlir::Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    if (kindOf(producer) != OpKind::kView) break;
    value = producer->getOperand(0);
  }
  return value;
}

/// Behind views and slices: the value whose bytes are read.
inline mlir::Value bytesBehind(mlir::Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    const OpKind kind = kindOf(producer);
    if (kind != OpKind::kView && kind != OpKind::kSlice) break;
    value = producer->getOperand(0);
  }
  return value;
}

}  // namespace tessera::compiler
