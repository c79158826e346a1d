#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Splits dimension `dim` into (dim / inner, inner), in place in the order of dimensions: a view.
mlir::Value splitDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                           int64_t inner);

/// Merges dimensions `dim` and `dim + 1`: a view.
mlir::Value mergeDimensions(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim);

/// result[..., i at position d, ...] = value[..., i at position permutation[d], ...], as a linalg.generic.
mlir::Value transpose(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                      llvm::ArrayRef<int64_t> permutation);

/// A transpose of an activation; where it moves nothing in memory it is two views, elsewhere it carries
/// kLayoutTransform.
mlir::Value transposeActivation(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                                llvm::ArrayRef<int64_t> permutation);

/// Adds zeros after the last element of `dim` up to `extent` elements.
mlir::Value padDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                         int64_t extent);

/// A tensor of `shape` filled with what `init`'s fill writes; null if `init` is not a fill.
mlir::Value refill(mlir::OpBuilder& builder, mlir::Value init, llvm::ArrayRef<int64_t> shape);

/// Discardable attribute on the transposes that transposeActivation makes.
constexpr char kLayoutTransform[] = "tessera.layout_transform";

}  // namespace tessera::compiler
