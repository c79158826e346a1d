#pragma once

#include <vector>

#include "compiler/import/node.h"

/// Dimensions whose extent depends on the data: `Tensor.shape` holds an upper bound, `Tensor.extents` an i64 that
/// the module computes. Elements beyond the extent exist and hold something; an operator takes such a dimension when
/// what they hold does not matter, and says in its table entry which dimensions of its results inherit it.
namespace tessera::compiler {

/// Sets the extents of the results of a node that has an input with a bounded dimension. An error names the
/// dimension and says why it must be known.
using ExtentRule = absl::Status (*)(Node& node, Emitter& e, std::vector<Tensor>& results);

/// Whether some dimension of the tensor, or of a tensor of the sequence, is bounded.
bool isBounded(const Tensor& tensor);
bool hasBoundedInput(const Node& node);

/// UNSUPPORTED_OPERATOR about a dimension of an input.
absl::Status refuseExtent(const Node& node, int input, int64_t dim, const std::string& why);
/// The same about the first bounded dimension there is; OK when there is none.
absl::Status refuseExtents(const Node& node, const std::string& why);
absl::Status refuseExtents(const Node& node, int input, const std::string& why);

/// The tensor with `neutral` in the elements beyond the extent of a bounded dimension: whatever combines elements along
/// it then gives what it gives without them.
Tensor masked(Emitter& e, const Tensor& x, int64_t dim, llvm::function_ref<mlir::Value(const Scalars&)> neutral);
/// Zeros there.
Tensor zeroed(Emitter& e, const Tensor& x, int64_t dim);
/// Whether both have the same extents at the same dimensions.
bool sameExtents(const Node& node, const Tensor& x, const Tensor& y);

/// An extent as a value to compute with: i64 of rank 0.
Tensor extentOf(const Tensor& tensor, int64_t dim);  ///< the bound itself when the dimension is static
Tensor scalarI64(int64_t value);
Tensor multiplied(Emitter& e, const Tensor& extent, int64_t factor);
/// Marks a dimension; nothing to mark when the extent is a constant.
void setExtent(Tensor& tensor, int64_t dim, const Tensor& extent);
/// max(extent * factor + more, 0)
Tensor scaledExtent(Emitter& e, const Tensor& extent, int64_t factor, int64_t more);
/// extent / parts, where every size is a multiple (Node::divides)
Tensor dividedExtent(Emitter& e, const Tensor& extent, int64_t parts);

/// The lowering has set the extents of its results already.
absl::Status extentsByLowering(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results are the inputs broadcast against each other: elementwise operators.
absl::Status broadcastExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions, and no other input a bounded one.
absl::Status keptExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Only the first dimension of the first input may be bounded, and is that of all results: rows do not meet.
absl::Status batchExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions; elements meet along the attribute `axis` (default: the last), which must
/// be known.
absl::Status alongAxisExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// Results have the first input's dimensions in front of the attribute `axis` (default: the last); everything from
/// there on is normalized together.
absl::Status layerExtents(Node& node, Emitter& e, std::vector<Tensor>& results);
/// The first input's elements in their order under another shape; `wanted`, unless null, is the shape as it was
/// asked for, with -1 and 0.
absl::Status reshapeExtents(Node& node, Emitter& e, std::vector<Tensor>& results, const Shape* wanted);

}  // namespace tessera::compiler
