#pragma once

#include "compiler/graph/analysis/op_kind.h"

namespace tessera::compiler {

/// Returns the value under any views (reshapes) of it.
inline mlir::Value viewSource(mlir::Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    if (kindOf(producer) != OpKind::kView) break;
    value = producer->getOperand(0);
  }
  return value;
}

/// Returns the value under any views and slices: the one whose bytes are read.
inline mlir::Value underlyingBytes(mlir::Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    const OpKind kind = kindOf(producer);
    if (kind != OpKind::kView && kind != OpKind::kSlice) break;
    value = producer->getOperand(0);
  }
  return value;
}

}  // namespace tessera::compiler
