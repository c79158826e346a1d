// Writing at computed indices. Updates are applied in row-major order, so that duplicate indices give the result of the
// specification's loop. Indices out of range are clamped (indexing.h).
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Value;
using mlir::ValueRange;

llvm::SmallVector<Value> serialLoops(Emitter& e, const Shape& extents, ValueRange state, LoopBody body) {
  auto constant = [&](int64_t value) { return mlir::arith::ConstantIndexOp::create(e.b, e.loc, value).getResult(); };
  llvm::SmallVector<Value> upper, lower(extents.size(), constant(0)), step(extents.size(), constant(1));
  for (int64_t extent : extents) upper.push_back(constant(extent));
  return mlir::scf::buildLoopNest(e.b, e.loc, lower, upper, step, state,
                                  [&](mlir::OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) {
                                    llvm::SmallVector<Value> next = body(b, loc, point, now);
                                    return mlir::scf::ValueVector(next.begin(), next.end());
                                  })
      .results;
}

namespace {

enum class Combine { kReplace, kAdd, kMul, kMax, kMin };

/// Reads the attribute `reduction`: sums and products since version 16, extrema since 18.
absl::StatusOr<Combine> readReduction(Node& n) {
  if (n.opset() < 16) return Combine::kReplace;
  TESSERA_ASSIGN_OR_RETURN(const std::string name, n.text("reduction", "none"));
  static constexpr const char* kNames[] = {"none", "add", "mul", "max", "min"};
  for (int i = 0; i < (n.opset() < 18 ? 3 : 5); ++i) {
    if (name != kNames[i]) continue;
    if (i > 0 && n.in(0).dtype == v1::DATA_TYPE_BOOL) {
      return n.unsupported("a reduction of bool", {.attribute = "reduction", .found = name, .accepted = "none"});
    }
    return static_cast<Combine>(i);
  }
  return n.invalid(absl::StrCat("attribute 'reduction' is '", printable(name), "'"),
                   {.attribute = "reduction",
                    .found = name,
                    .accepted = n.opset() < 18 ? "none, add, mul" : "none, add, mul, max, min"});
}

Value combine(const Scalars& s, Combine how, Value old, Value update) {
  switch (how) {
    case Combine::kAdd:
      return s.add(old, update);
    case Combine::kMul:
      return s.mul(old, update);
    case Combine::kMax:
      return s.max(old, update);
    case Combine::kMin:
      return s.min(old, update);
    case Combine::kReplace:
      return update;
  }
  return update;
}

/// Returns the coordinates to which the update at `point` is written.
using Target = llvm::function_ref<llvm::SmallVector<Value>(const Scalars& s, ValueRange point)>;

/// Applies updates, except those beyond an extent in `extents` (by dimension of `updates`).
Tensor scatter(Emitter& e, const Tensor& data, const Tensor& updates, Combine how,
               const std::map<int64_t, Value>& extents, Target target) {
  Value source = e.value(updates);
  // Updates are written one after the other, because several may have the same target.
  auto results = serialLoops(
      e, updates.shape, {e.value(data)},
      [&](mlir::OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange state) -> llvm::SmallVector<Value> {
        const Scalars s(b, loc, data.dtype);
        llvm::SmallVector<Value> to = target(s, point);
        Value update = e.extract(s, source, point);
        // Replaced elements need not be read, unless the update may not count.
        const bool reads = how != Combine::kReplace || !extents.empty();
        Value old = reads ? e.extract(s, state[0], to) : Value();
        Value fresh = combine(s, how, old, update);
        for (const auto& [dim, extent] : extents) {
          const Scalars wide = s.as(v1::DATA_TYPE_I64);
          Value counts = wide.compare(Relation::kLess, position(s, point[dim]), e.extract(wide, extent, {}));
          fresh = s.select(counts, fresh, old);
        }
        return {mlir::tensor::InsertOp::create(b, loc, fresh, state[0], to)};
      });
  return Emitter::wrap(results[0], data.dtype);
}

absl::Status checkUpdates(Node& n, const Shape& expected) {
  TESSERA_RETURN_IF_ERROR(checkIndices(n, 1));
  if (n.in(2).dtype != n.in(0).dtype || n.in(2).shape != expected) {
    return n.invalid("the updates do not fit",
                     {.attribute = "updates",
                      .found = absl::StrCat(shapeText(n.in(2).shape), " of ", typeName(n.in(2).dtype)),
                      .accepted = absl::StrCat(shapeText(expected), " of ", typeName(n.in(0).dtype))});
  }
  if (n.in(2).elements() > 0 && n.in(0).elements() == 0) {
    return n.invalid("updates of an empty tensor",
                     {.attribute = "data", .found = shapeText(n.in(0).shape), .accepted = "dimensions of at least 1"});
  }
  return absl::OkStatus();
}

/// Returns the coordinate of an index of dimension `dim`: a negative one counts from the run-time end.
Value coordinateOf(Emitter& e, const Scalars& s, const Tensor& data, int64_t dim, Value index, v1::DataType type) {
  const auto bounded = data.extents.find(dim);
  Value extent;
  if (bounded != data.extents.end()) extent = e.extract(s.as(v1::DATA_TYPE_I64), bounded->second, {});
  return coordinate(s, index, type, data.shape[dim], extent);
}

/// data[i.., indices[i.., j, k..], k..] = updates[i.., j, k..] along `axis`
Results lowerScatterElements(Node& n, Emitter& e) {
  const Tensor& data = n.in(0);
  const Tensor& indices = n.in(1);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, data.rank()));
  TESSERA_ASSIGN_OR_RETURN(const Combine how, readReduction(n));
  bool fits = indices.rank() == data.rank();
  // Indices may be fewer than the data in every other dimension.
  for (int64_t d = 0; fits && d < data.rank(); ++d) fits = d == axis || indices.shape[d] <= data.shape[d];
  if (!fits) {
    return n.invalid("indices do not fit the data",
                     {.attribute = "indices",
                      .found = shapeText(indices.shape),
                      .accepted = absl::StrCat("within ", shapeText(data.shape), " except along axis ", axis)});
  }
  TESSERA_RETURN_IF_ERROR(checkUpdates(n, indices.shape));
  if (indices.elements() == 0) return {{data}};
  Value index = e.value(indices);
  return {{scatter(e, data, n.in(2), how, indices.extents, [&](const Scalars& s, ValueRange point) {
    llvm::SmallVector<Value> to(point);
    to[axis] = coordinateOf(e, s, data, axis, e.extract(s, index, point), indices.dtype);
    return to;
  })}};
}

/// The number of updates may be data-decided, such as the rows of a mask: each update has its index.
absl::Status scatteredExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i : {1, 2}) {
    for (const auto& [dim, extent] : n.in(i).extents)
      if (!sameExtents(n, n.in(1), n.in(2)))
        return refuseExtent(n, i, dim, "the extents of indices and updates may differ");
  }
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// Like scatteredExtents(), for whole rows, whose other dimensions have the extents of `data`.
absl::Status scatteredRowExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  const Tensor &data = n.in(0), &indices = n.in(1), &updates = n.in(2);
  const int64_t depth = indices.shape.back(), lead = indices.rank() - 1;
  if (indices.extents.contains(lead)) return refuseExtent(n, 1, lead, "it is the number of coordinates");
  std::map<int64_t, Value> expected = indices.extents;
  // Whole rows have the data's extents behind the indexed dimensions.
  for (const auto& [dim, extent] : data.extents) {
    if (dim >= depth) expected[lead + dim - depth] = extent;
  }
  Tensor wanted = updates;
  wanted.extents = expected;
  if (!sameExtents(n, updates, wanted)) return refuseExtents(n, "the extents of data, indices and updates may differ");
  results[0].extents = data.extents;
  return absl::OkStatus();
}

/// data[indices[i..., :], j...] = updates[i..., j...]
Results lowerScatterNd(Node& n, Emitter& e) {
  const Tensor& data = n.in(0);
  const Tensor& indices = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 1));
  TESSERA_ASSIGN_OR_RETURN(const Combine how, readReduction(n));
  const int64_t depth = indices.shape.back();
  const int64_t lead = indices.rank() - 1;
  if (depth < 1 || depth > data.rank()) {
    return n.invalid("indices do not fit the data",
                     {.attribute = "indices",
                      .found = shapeText(indices.shape),
                      .accepted = absl::StrCat("a last dimension of 1 to ", data.rank())});
  }
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), data.shape.begin() + depth, data.shape.end());
  TESSERA_RETURN_IF_ERROR(checkUpdates(n, expected));
  if (n.in(2).elements() == 0) return {{data}};
  Value index = e.value(indices);
  // The last dimension numbers coordinates and is no dimension of the updates.
  std::map<int64_t, Value> extents = indices.extents;
  extents.erase(lead);
  return {{scatter(e, data, n.in(2), how, extents, [&](const Scalars& s, ValueRange point) {
    llvm::SmallVector<Value> to;
    for (int64_t k = 0; k < depth; ++k) {
      llvm::SmallVector<Value> place(point.take_front(lead));
      place.push_back(mlir::arith::ConstantIndexOp::create(s.b, s.loc, k));
      to.push_back(coordinateOf(e, s, data, k, e.extract(s, index, place), indices.dtype));
    }
    to.append(point.begin() + lead, point.end());
    return to;
  })}};
}

/// Rows of `update` along the axis replace rows of the cache from write_indices[batch] on.
Results lowerTensorScatter(Node& n, Emitter& e) {
  const Tensor& cache = n.in(0);
  const Tensor& update = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -2, cache.rank()));
  TESSERA_ASSIGN_OR_RETURN(const std::string mode, n.text("mode", "linear"));
  if (mode != "linear" && mode != "circular") {
    return n.invalid("unknown mode", {.attribute = "mode", .found = mode, .accepted = "linear, circular"});
  }
  Shape expected = cache.shape;
  if (update.rank() == cache.rank()) expected[axis] = std::min(update.shape[axis], cache.shape[axis]);
  if (axis == 0 || update.shape != expected || update.dtype != cache.dtype ||
      (n.has(2) && (n.in(2).shape != Shape{cache.shape[0]} || !isInteger(n.in(2).dtype)))) {
    return n.invalid("the update does not fit the cache",
                     {.attribute = "update",
                      .found = shapeText(update.shape),
                      .accepted = absl::StrCat(shapeText(cache.shape), ", fewer along an axis that is not 0, and an ",
                                               "index for each batch")});
  }
  if (update.elements() == 0) return {{cache}};
  // Written as reads: each element of the result selects its source.
  const int64_t size = cache.shape[axis], rows = update.shape[axis];
  const v1::DataType i64 = v1::DATA_TYPE_I64;
  Value old = e.value(cache), fresh = e.value(update), starts = n.has(2) ? e.value(n.in(2)) : Value();
  return {{e.generate(cache.dtype, cache.shape, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(i64);
    Value start = starts ? s.as(n.in(2).dtype).cast(e.extract(s, starts, {at[0]}), i64) : wide.integer(0);
    // The row of the update that lands here, if any.
    Value row = wide.sub(position(s, at[axis]), start);
    if (mode == "circular") row = wide.floorMod(row, wide.integer(size));
    llvm::SmallVector<Value> from(at);
    from[axis] = clampedCoordinate(s, row, rows);
    return s.select(isInside(s, row, rows), e.extract(s, fresh, from), e.extract(s, old, at));
  })}};
}

}  // namespace

std::vector<Operator> scatterOperators() {
  return {
      {"Scatter", 9, 3, 3, lowerScatterElements, kAll, 1, 10, "", scatteredExtents},
      {"ScatterElements", 11, 3, 3, lowerScatterElements, kAll, 1, INT_MAX, "", scatteredExtents},
      {"ScatterND", 11, 3, 3, lowerScatterNd, kAll, 1, INT_MAX, "", scatteredRowExtents},
      {"TensorScatter", 24, 2, 3, lowerTensorScatter, kStored, 2},
  };
}

}  // namespace tessera::compiler
