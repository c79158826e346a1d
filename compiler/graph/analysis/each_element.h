#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Maps `body` over the elements of `tensor`. The result has the same shape and elements of type `to`.
mlir::Value mapElements(mlir::OpBuilder& builder, mlir::Location location, mlir::Value tensor, mlir::Type to,
                        llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::Value)> body);

/// Flips the sign bit of an 8-bit element.
mlir::Value flipSignBit(mlir::OpBuilder& builder, mlir::Location location, mlir::Value element);

}  // namespace tessera::compiler
