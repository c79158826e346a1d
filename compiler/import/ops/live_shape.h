#pragma once

#include <optional>
#include <vector>

#include "compiler/import/node.h"

/// Operators that move elements by how much of a range there is: where dimensions of a run are packed otherwise than
/// the greatest ones, elements are looked up one by one.
namespace tessera::compiler {

/// Product of integers (i64 of rank 0).
Tensor productOf(Emitter& e, llvm::ArrayRef<Tensor> factors);

/// The elements of x in their order under `shape`, the greatest one, where `sizes` (i64 of rank 0, one per dimension of
/// the result) say how much of each dimension a run has. Their product is that of x's extents in every run.
Tensor reshapedLive(const Node& n, Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> sizes);

/// x repeated counts[d] times (i64 of rank 0) along dimension d: as much of `shape`, the greatest one, as a run has.
Tensor tiledLive(Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> counts);

/// Padding of one dimension that follows ranges.
struct LivePadding {
  Tensor low, size;  ///< elements in front, and of the result altogether: i64 of rank 0
  int64_t most = 0;  ///< of the result altogether
};

/// x with padding in front of and behind dimension `dim`; below 0 it cuts off. Elements beyond are `value`.
Tensor paddedLive(Emitter& e, const Tensor& x, int64_t dim, const LivePadding& padding,
                  llvm::function_ref<mlir::Value(const Scalars&)> value);

/// x padded with `value` by the amounts of input `pads`, known at run time, that follow ranges, such as the row that
/// halving and doubling an odd size has lost. `refused`: what to answer when they do not, or a size could be negative.
absl::StatusOr<Tensor> paddedByShapes(const Node& n, Emitter& e, const Tensor& x, int pads,
                                      llvm::function_ref<mlir::Value(const Scalars&)> value,
                                      const absl::Status& refused);

}  // namespace tessera::compiler
