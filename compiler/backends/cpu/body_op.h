#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler::codegen {

/// Creates an operation that carries the body of a nest that code generation itself creates. It has `inputs` scalar
/// inputs and one output of type `element`; `body` receives all of them and returns the new output value. The nest, not
/// this operation, says which memory is read and written.
mlir::linalg::LinalgOp bodyOp(mlir::OpBuilder& builder, mlir::Type element, int inputs,
                              llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body);

/// The same with `outputs` outputs: `body` receives the inputs and the current values of the outputs.
mlir::linalg::LinalgOp bodyOp(
    mlir::OpBuilder& builder, mlir::Type element, int inputs, int outputs,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body);

}  // namespace tessera::compiler::codegen
