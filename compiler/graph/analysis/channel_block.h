#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Splits dimension `dim` into (dim / inner, inner) at the same position: a view.
mlir::Value splitDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                           int64_t inner);

/// Merges dimensions `dim` and `dim + 1`: a view.
mlir::Value mergeDimensions(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim);

/// result[..., i at position d, ...] = value[..., i at position permutation[d], ...], as a linalg.generic.
mlir::Value transpose(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                      llvm::ArrayRef<int64_t> permutation);

/// Transposes an activation. A transpose that moves no bytes becomes two views; any other one carries kLayoutTransform.
mlir::Value transposeActivation(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                                llvm::ArrayRef<int64_t> permutation);

/// Pads `dim` with zeros at its end, to `extent` elements.
mlir::Value padDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                         int64_t extent);

/// Returns a tensor of `shape` with the fill value of `init`; null if `init` is not a fill.
mlir::Value refill(mlir::OpBuilder& builder, mlir::Value init, llvm::ArrayRef<int64_t> shape);

/// Discardable attribute of the transposes that transposeActivation makes.
constexpr char kLayoutTransform[] = "tessera.layout_transform";

}  // namespace tessera::compiler
