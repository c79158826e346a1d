#pragma once

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// Transposes a square of vectors in registers: result[j][i] = rows[i][j]. The number of rows equals the number of
/// lanes, a power of two. Takes log2(lanes) rounds, in which pairs of rows exchange halves, then quarters, and so on.
llvm::SmallVector<mlir::Value> transposeSquare(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> rows);

}  // namespace tessera::compiler::codegen
