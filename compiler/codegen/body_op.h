#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler::codegen {

/// An operation that carries the body of a nest codegen makes itself: `inputs` scalars and an output of type
/// `element`; `body` gets them and returns the new value. What it reads and writes is said by the nest, not by it.
mlir::linalg::LinalgOp bodyOp(mlir::OpBuilder& builder, mlir::Type element, int inputs,
                              llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body);

/// The same with `outputs` outputs: `body` gets the inputs and what the outputs hold.
mlir::linalg::LinalgOp bodyOp(
    mlir::OpBuilder& builder, mlir::Type element, int inputs, int outputs,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body);

}  // namespace tessera::compiler::codegen
