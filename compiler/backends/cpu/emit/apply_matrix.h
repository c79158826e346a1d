#pragma once

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// Emits matrix * values. Rows that differ only in the signs of some columns share their common terms, and so do
/// columns.
llvm::SmallVector<mlir::Value> applyMatrix(mlir::OpBuilder& builder, llvm::ArrayRef<llvm::SmallVector<double>> matrix,
                                           llvm::ArrayRef<mlir::Value> values, bool fuse_multiply_add);

}  // namespace tessera::compiler::codegen
