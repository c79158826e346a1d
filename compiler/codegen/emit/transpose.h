#pragma once

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// Transposes a square of vectors in registers: result[j][i] = rows[i][j]. As many rows as lanes, a power of two;
/// log2(lanes) rounds in which pairs of rows exchange halves, then quarters, and so on.
llvm::SmallVector<mlir::Value> transposeSquare(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> rows);

}  // namespace tessera::compiler::codegen
