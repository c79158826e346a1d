#pragma once

#include <optional>
#include <vector>

#include "compiler/import/node.h"

/// Operators that move elements depending on the sizes of ranges. If the used elements of a run are at other positions
/// than in the full shape, each element is looked up.
namespace tessera::compiler {

/// Returns the product of integers (i64 of rank 0).
Tensor productOf(Emitter& e, llvm::ArrayRef<Tensor> factors);

/// Returns the used elements of x, in order, in another shape. `shape` has the bounds, `sizes` (i64 of rank 0, one per
/// dimension of the result) the sizes of a run. Their product must equal that of x's extents in every run.
Tensor reshapeDynamic(const Node& n, Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> sizes);

/// Repeats x counts[d] times (i64 of rank 0) along dimension d. `shape` has the bounds of the result.
Tensor tileDynamic(Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> counts);

/// Padding of one dimension by amounts that depend on ranges.
struct DynamicPadding {
  Tensor low, size;  ///< leading padding, and size of the result: i64 of rank 0
  int64_t most = 0;  ///< bound of the result's size
};

/// Pads dimension `dim` of x at both ends with `value`; negative amounts crop.
Tensor padDynamic(Emitter& e, const Tensor& x, int64_t dim, const DynamicPadding& padding,
                  llvm::function_ref<mlir::Value(const Scalars&)> value);

/// Pads x with `value` by the amounts in input `pads`, which are computed at run time from ranges, such as the row that
/// halving and doubling an odd size loses. Returns `refused` if they depend on anything else, or if a size could be
/// negative.
absl::StatusOr<Tensor> padByShapeValues(const Node& n, Emitter& e, const Tensor& x, int pads,
                                        llvm::function_ref<mlir::Value(const Scalars&)> value,
                                        const absl::Status& refused);

}  // namespace tessera::compiler
