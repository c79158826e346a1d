#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// A tensor of `tensor`'s shape with elements of type `to`: `body` of each of its own.
mlir::Value eachElement(mlir::OpBuilder& builder, mlir::Location location, mlir::Value tensor, mlir::Type to,
                        llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::Value)> body);

/// An element of 8 bits with its sign bit turned.
mlir::Value turnedSign(mlir::OpBuilder& builder, mlir::Location location, mlir::Value element);

}  // namespace tessera::compiler
