#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Block of a channel count, 0 for none: see assignChannelBlocks.
int64_t channelBlock(int64_t channels, int64_t lanes);

/// Splits dimension `dim` into (dim / inner, inner), in place in the order of dimensions: a view.
mlir::Value splitDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                           int64_t inner);

/// Merges dimensions `dim` and `dim + 1`: a view.
mlir::Value mergeDimensions(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim);

/// result[..., i at position d, ...] = value[..., i at position permutation[d], ...], as a linalg.generic.
mlir::Value transpose(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                      llvm::ArrayRef<int64_t> permutation);

/// [n, C, h, w] -> [n, C/block, h, w, block]
mlir::Value packChannels(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t block);

/// [n, C/block, h, w, block] -> [n, C, h, w]
mlir::Value unpackChannels(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value);

/// Adds zeros after the last element of `dim` up to `extent` elements.
mlir::Value padDimension(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value, int64_t dim,
                         int64_t extent);

/// A tensor of `shape` filled with what `init`'s fill writes; null if `init` is not a fill.
mlir::Value refill(mlir::OpBuilder& builder, mlir::Value init, llvm::ArrayRef<int64_t> shape);

/// Discardable attribute on the transposes that packChannels and unpackChannels make.
constexpr char kLayoutTransform[] = "tessera.layout_transform";

}  // namespace tessera::compiler
