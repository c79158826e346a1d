#pragma once

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// matrix * values. Rows that differ in the signs of some columns share what they have in common, and so do columns.
llvm::SmallVector<mlir::Value> applyMatrix(mlir::OpBuilder& builder, llvm::ArrayRef<llvm::SmallVector<double>> matrix,
                                           llvm::ArrayRef<mlir::Value> values, bool fuse_multiply_add);

}  // namespace tessera::compiler::codegen
