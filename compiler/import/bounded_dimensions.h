#pragma once

#include <vector>

#include "compiler/import/node.h"

/// Bounded dimensions: `Tensor.shape` holds an upper bound, and `Tensor.extents` the number of elements that count, an
/// i64 that the module computes. Elements at or after the extent exist and have unspecified contents. An operator
/// accepts such a dimension if these contents do not matter; its table entry says which dimensions of its results
/// inherit the extent.
namespace tessera::compiler {

/// Sets the extents of the results of a node that has an input with a bounded dimension. An error names the dimension
/// and says why its size must be known.
using ExtentRule = absl::Status (*)(Node& node, Emitter& e, std::vector<Tensor>& results);

/// Whether a dimension of the tensor, or of a tensor of the sequence, is bounded.
bool isBounded(const Tensor& tensor);
bool hasBoundedInput(const Node& node);

/// Returns UNSUPPORTED_OPERATOR about a dimension of an input.
absl::Status refuseExtent(const Node& node, int input, int64_t dim, const std::string& why);
/// Returns UNSUPPORTED_OPERATOR about the first bounded dimension of the inputs; OK if there is none.
absl::Status refuseExtents(const Node& node, const std::string& why);
absl::Status refuseExtents(const Node& node, int input, const std::string& why);

/// Returns the tensor with `neutral` in the elements beyond the extent of a bounded dimension, so that combining
/// elements along it ignores them.
Tensor masked(Emitter& e, const Tensor& x, int64_t dim, llvm::function_ref<mlir::Value(const Scalars&)> neutral);
/// Returns the tensor with zeros beyond the extent.
Tensor zeroed(Emitter& e, const Tensor& x, int64_t dim);
/// Whether both tensors have the same extents in the same dimensions.
bool sameExtents(const Node& node, const Tensor& x, const Tensor& y);

/// Whether two extents are equal in every run. If they are equal for multiples of some number alone, as after halving
/// and doubling an image, runs with other sizes are refused.
bool equalInAcceptedRuns(const Node& node, mlir::Value a, mlir::Value b);

/// Returns an extent as an operand: i64 of rank 0.
Tensor extentOf(const Tensor& tensor, int64_t dim);  ///< the bound itself when the dimension is static
Tensor scalarI64(int64_t value);
Tensor multiplied(Emitter& e, const Tensor& extent, int64_t factor);
/// Sets the extent of a dimension; does nothing if it is a constant.
void setExtent(Tensor& tensor, int64_t dim, const Tensor& extent);
/// Returns max(extent * factor + more, 0).
Tensor scaledExtent(Emitter& e, const Tensor& extent, int64_t factor, int64_t more);
/// Returns extent / parts. Requires that every size is a multiple (Node::divides).
Tensor dividedExtent(Emitter& e, const Tensor& extent, int64_t parts);

/// For operators whose lowering sets the extents of the results itself.
absl::Status extentsByLowering(Node& node, Emitter& e, std::vector<Tensor>& results);
/// For elementwise operators: results have the extents of the inputs broadcast against each other.
absl::Status broadcastExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions; no other input may be bounded.
absl::Status unaryExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Only the first dimension of the first input may be bounded; all results inherit it. Rows are independent.
absl::Status independentRowExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions. Elements are combined along the attribute `axis` (default: the last),
/// which must not be bounded.
absl::Status alongAxisExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions before the attribute `axis` (default: the last). Dimensions from there on
/// are normalized together.
absl::Status beforeAxisExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results are the first input's elements, in order, in another shape. `wanted`, unless null, is the requested shape,
/// with -1 and 0.
absl::Status reshapeExtents(Node& node, Emitter& e, std::vector<Tensor>& results, const Shape* wanted);

}  // namespace tessera::compiler
