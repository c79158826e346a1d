// Reading and writing at computed indices. An index that the specification leaves undefined is clamped to the tensor,
// so that no run-time index makes generated code leave its buffers.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;

Value coordinate(const Scalars& s, Value index, v1::DataType type, int64_t dim, Value extent) {
  const Scalars wide = s.as(v1::DATA_TYPE_I64);
  Value at = s.as(type).cast(index, v1::DATA_TYPE_I64);
  if (!extent) extent = wide.integer(dim);
  at = s.select(wide.compare(Relation::kLess, at, wide.integer(0)), wide.add(at, extent), at);
  at = wide.min(wide.max(at, wide.integer(0)), wide.integer(dim - 1));
  return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), at);
}

absl::Status checkIndices(Node& n, int input) {
  if (n.in(input).dtype == v1::DATA_TYPE_I32 || n.in(input).dtype == v1::DATA_TYPE_I64) return absl::OkStatus();
  return n.invalid("indices are not integers",
                   {.attribute = "indices", .found = typeName(n.in(input).dtype), .accepted = "i32, i64"});
}

namespace {

absl::Status emptySource(Node& n) {
  return n.invalid("indices into an empty dimension",
                   {.attribute = "data", .found = shapeText(n.in(0).shape), .accepted = "dimensions of at least 1"});
}

/// Returns the number from which negative indices of a bounded dimension count, inside an operation; null for other
/// dimensions.
Value countOf(Emitter& e, const Scalars& s, const Tensor& x, int64_t dim) {
  const auto extent = x.extents.find(dim);
  return extent == x.extents.end() ? Value() : e.extract(s.as(v1::DATA_TYPE_I64), extent->second, {});
}

/// The indices' dimensions replace the axis in the result.
Tensor withGatheredExtents(const Node& n, int64_t axis, Tensor result) {
  const Tensor& x = n.in(0);
  const Tensor& indices = n.in(1);
  result.extents.clear();
  for (const auto& [dim, extent] : x.extents)
    if (dim != axis) result.extents[dim < axis ? dim : dim - 1 + indices.rank()] = extent;
  for (const auto& [dim, extent] : indices.extents) result.extents[axis + dim] = extent;
  return result;
}

/// A list of sizes has one element per dimension.
constexpr int64_t kMaxSizes = 64;

Results lowerGather(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& indices = n.in(1);
  TESSERA_RETURN_IF_ERROR(checkIndices(n, 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, x.rank()));
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  // An empty result reads nothing, so an empty source is fine.
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  if (x.shape[axis] == 0) return emptySource(n);
  const bool one_known = indices.constant && indices.elements() == 1;
  if (one_known && x.rank() == 1 && !x.constant && x.shape[0] <= kMaxSizes) {
    // Picks a constant size from a list in which others vary: a later comparison with it (with 1, say) can then be
    // folded.
    const absl::StatusOr<SizeList> sizes = n.sizes(0, "data");
    const int64_t given = indices.constant->integerAt(0), at = given < 0 ? given + x.shape[0] : given;
    if (sizes.ok() && at >= 0 && at < x.shape[0] && !sizes->follows[at]) {
      const Tensor size = e.cast(Emitter::wrap(integerConstant({sizes->most[at]})), x.dtype);
      return {{e.reshape(size, shape)}};
    }
  }
  // A negative index into a bounded dimension counts from its run-time end and is no fixed position.
  if (one_known && (indices.constant->integerAt(0) >= 0 || !x.extents.contains(axis))) {
    // A single known index is a slice.
    int64_t at = indices.constant->integerAt(0);
    // Like indices at run time: an index outside is clamped, as memory must never be read outside.
    at = std::clamp<int64_t>(at < 0 ? at + x.shape[axis] : at, 0, x.shape[axis] - 1);
    std::vector<int64_t> offsets(x.rank(), 0), sizes = x.shape, strides(x.rank(), 1);
    offsets[axis] = at;
    sizes[axis] = 1;
    return {{withGatheredExtents(n, axis, e.reshape(e.slice(x, offsets, sizes, strides), shape))}};
  }
  Value source = e.value(x);
  Value index = e.value(indices);
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    // The indices' dimensions stand at the axis, the source's others around them.
    Value number = e.extract(s, index, at.slice(axis, indices.rank()));
    llvm::SmallVector<Value> from(at.take_front(axis));
    from.push_back(coordinate(s, number, indices.dtype, x.shape[axis], countOf(e, s, x, axis)));
    from.append(at.begin() + axis + indices.rank(), at.end());
    return e.extract(s, source, from);
  });
  return {{withGatheredExtents(n, axis, std::move(result))}};
}

Results lowerGatherElements(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& indices = n.in(1);
  TESSERA_RETURN_IF_ERROR(checkIndices(n, 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, x.rank()));
  bool fits = indices.rank() == x.rank();
  // Dimensions other than the axis may be shorter than the data's.
  for (int64_t d = 0; fits && d < x.rank(); ++d) fits = d == axis || indices.shape[d] <= x.shape[d];
  if (!fits) {
    return n.invalid("indices do not fit the data", {.attribute = "indices",
                                                     .found = shapeText(indices.shape),
                                                     .accepted = absl::StrCat("within ", shapeText(x.shape))});
  }
  if (indices.elements() == 0) return {{Emitter::wrap(makeConstant(x.dtype, indices.shape, ""))}};
  if (x.elements() == 0) return emptySource(n);
  Value source = e.value(x);
  Tensor result = e.elementwise(x.dtype, {indices}, [&](const Scalars& s, ValueRange v) {
    llvm::SmallVector<Value> from;
    for (int64_t d = 0; d < x.rank(); ++d) {
      from.push_back(d == axis ? coordinate(s, v[0], indices.dtype, x.shape[axis], countOf(e, s, x, axis))
                               : mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(d)).getResult());
    }
    return e.extract(s, source, from);
  });
  result.extents = indices.extents;
  return {{std::move(result)}};
}

Results lowerGatherNd(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& indices = n.in(1);
  TESSERA_RETURN_IF_ERROR(checkIndices(n, 1));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t batch, n.integer("batch_dims", 0));
  const int64_t depth = indices.shape.back();
  const int64_t lead = indices.rank() - 1;
  bool fits = batch >= 0 && batch <= lead && batch < x.rank() && depth >= 1 && depth <= x.rank() - batch;
  for (int64_t d = 0; fits && d < batch; ++d) fits = indices.shape[d] == x.shape[d];
  if (!fits) {
    return n.invalid("indices do not fit the data",
                     {.attribute = "indices", .found = shapeText(indices.shape), .accepted = shapeText(x.shape)});
  }
  // The result has the indices' leading dimensions and what each index leaves of the source.
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + batch + depth, x.shape.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  if (x.elements() == 0) return emptySource(n);
  for (const auto& [dim, extent] : x.extents) {
    if (dim < batch) return refuseExtent(n, 0, dim, "it must be that of the indices");
  }
  if (indices.extents.contains(lead)) return refuseExtent(n, 1, lead, "it is the length of an index");
  Value source = e.value(x);
  Value index = e.value(indices);
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    llvm::SmallVector<Value> from(at.take_front(batch));
    for (int64_t k = 0; k < depth; ++k) {
      llvm::SmallVector<Value> place(at.take_front(lead));
      place.push_back(arith::ConstantIndexOp::create(s.b, s.loc, k));
      from.push_back(
          coordinate(s, e.extract(s, index, place), indices.dtype, x.shape[batch + k], countOf(e, s, x, batch + k)));
    }
    from.append(at.begin() + lead, at.end());
    return e.extract(s, source, from);
  });
  for (const auto& [dim, extent] : x.extents)
    if (dim >= batch + depth) result.extents[lead + dim - batch - depth] = extent;
  for (const auto& [dim, extent] : indices.extents) result.extents[dim] = extent;
  return {{std::move(result)}};
}

}  // namespace

std::vector<Operator> gatherOperators() {
  return withExtents(extentsByLowering, {
                                            {"Gather", 1, 2, 2, lowerGather},
                                            {"GatherElements", 11, 2, 2, lowerGatherElements},
                                            {"GatherND", 11, 2, 2, lowerGatherNd},
                                        });
}

}  // namespace tessera::compiler
