// Operators whose number of results depends on the data. Results have their largest size; the loop that fills them
// counts the used elements (compiler/import/bounded_dimensions.h).
#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/data_types.h"
#include "compiler/import/limits.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;

Value place(const Scalars& s, Value position) {
  return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), position);
}

/// Returns `hit` and whether a coordinate is within the extent of a dimension that may be bounded.
Value within(Emitter& e, const Scalars& s, const Tensor& x, int64_t dim, Value coordinate, Value hit) {
  auto extent = x.extents.find(dim);
  if (extent == x.extents.end()) return hit;
  const Scalars wide = s.as(kI64);
  Value limit = e.extract(wide, extent->second, ValueRange{});
  return wide.logicalAnd(hit, wide.compare(Relation::kLess, position(s, coordinate), limit));
}

bool isNonZero(const Constant& constant, int64_t index) {
  return isFloat(constant.dtype) ? constant.realAt(index) != 0 : constant.integerAt(index) != 0;
}

Tensor nonZeroOf(const Constant& x, const Shape& shape) {
  // One list for each dimension; the result has them as rows.
  std::vector<std::vector<int64_t>> coordinates(shape.size());
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (!isNonZero(x, i)) continue;
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) coordinates[d].push_back(rest % shape[d]);
  }
  std::vector<int64_t> all;
  for (const auto& list : coordinates) all.insert(all.end(), list.begin(), list.end());
  const Shape result = {static_cast<int64_t>(shape.size()), static_cast<int64_t>(coordinates[0].size())};
  return Emitter::wrap(reshaped(integerConstant(all), result));
}

/// Returns 1 if the single element is not 0 and lies within its dimensions, which have a bound of 1; otherwise 0.
Tensor countOfOne(Emitter& e, const Tensor& x, const std::map<int64_t, Value>& extents) {
  Tensor count = e.elementwise(kI64, {e.reshape(x, {})}, [](const Scalars& s, ValueRange v) {
    return s.as(v1::DATA_TYPE_BOOL).cast(s.compare(Relation::kNotEqual, v[0], s.constant(0)), kI64);
  });
  for (const auto& [dim, extent] : extents) {
    count = e.elementwise(kI64, {count, Emitter::wrap(extent, kI64)},
                          [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
  }
  return count;
}

/// Returns the coordinates of nonzero elements in row-major order, one column each. A scalar counts as a list of one.
Results lowerNonZero(Node& n, Emitter& e) {
  const Tensor x = n.in(0).rank() == 0 ? e.reshape(n.in(0), {1}) : n.in(0);
  const int64_t most = x.elements();
  TESSERA_RETURN_IF_ERROR(n.checkResult({x.rank(), most}, kI64));
  if (x.constant && most <= limits::kFoldedElements) return {{nonZeroOf(*x.constant, x.shape)}};
  if (most == 0) return {{Emitter::wrap(makeConstant(kI64, {x.rank(), 0}, ""))}};
  // A single element needs no loop, which code generation would require to have several iterations.
  if (most == 1) {
    Tensor origin = Emitter::wrap(reshaped(integerConstant(std::vector<int64_t>(x.rank(), 0)), {x.rank(), 1}));
    origin = Emitter::wrap(e.value(origin), kI64);
    setExtent(origin, 1, countOfOne(e, x, x.extents));
    return {{std::move(origin)}};
  }
  Value source = e.value(x);
  // State: coordinates found so far, and their number.
  const Value state[] = {e.zeros(kI64, {x.rank(), most}).value, e.zeros(kI64, {}).value};
  auto results =
      serialLoops(e, x.shape, state,
                  [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
                    const Scalars s(b, loc, x.dtype), wide = s.as(kI64);
                    Value hit = s.compare(Relation::kNotEqual, e.extract(s, source, point), s.constant(0));
                    for (int64_t d = 0; d < x.rank(); ++d) hit = within(e, s, x, d, point[d], hit);
                    // Writes the coordinates in any case: the next element overwrites them if this one is zero. The
                    // count is below `most`, because earlier elements counted at most once each.
                    Value count = e.extract(wide, now[1], ValueRange{});
                    Value column = place(s, count), coordinates = now[0];
                    for (int64_t d = 0; d < x.rank(); ++d) {
                      Value row = arith::ConstantIndexOp::create(b, loc, d);
                      coordinates = mlir::tensor::InsertOp::create(b, loc, position(s, point[d]), coordinates,
                                                                   ValueRange{row, column});
                    }
                    Value next = wide.add(count, s.as(v1::DATA_TYPE_BOOL).cast(hit, kI64));
                    return {coordinates, mlir::tensor::InsertOp::create(b, loc, next, now[1], ValueRange{})};
                  });
  Tensor result = Emitter::wrap(results[0], kI64);
  result.extents[1] = results[1];
  return {{std::move(result)}};
}

/// Returns indices i with condition[i] and i < `limit`, in order: a list of up to `limit`, or exactly those if all is
/// known.
Tensor selected(Emitter& e, const Tensor& condition, const Tensor& x, int64_t axis, int64_t limit) {
  // A known condition gives an exact list, and a constant shape.
  if (condition.constant && limit <= limits::kFoldedElements && !x.extents.contains(axis)) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < limit; ++i) {
      if (isNonZero(*condition.constant, i)) indices.push_back(i);
    }
    return Emitter::wrap(integerConstant(indices));
  }
  if (limit == 1) {
    // The element counts only if it exists in both.
    auto extents = condition.extents;
    if (auto extent = x.extents.find(axis); extent != x.extents.end()) extents[1] = extent->second;
    if (condition.shape[0] != 1) extents.erase(0);  // the extent may then be above 1
    Tensor first = Emitter::wrap(e.value(Emitter::wrap(integerConstant({0}))), kI64);
    setExtent(first, 0, countOfOne(e, e.take(condition, 0, 0), extents));
    return first;
  }
  Value source = e.value(condition);
  const Value state[] = {e.zeros(kI64, {limit}).value, e.zeros(kI64, {}).value};
  auto results = serialLoops(
      e, {limit}, state,
      [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
        const Scalars s(b, loc, condition.dtype), wide = s.as(kI64);
        Value hit = within(e, s, condition, 0, point[0], e.extract(s, source, point));
        hit = within(e, s, x, axis, point[0], hit);
        Value count = e.extract(wide, now[1], ValueRange{});  // below `limit`, as above
        Value indices = mlir::tensor::InsertOp::create(b, loc, position(s, point[0]), now[0], place(s, count));
        Value next = wide.add(count, s.cast(hit, kI64));
        return {indices, mlir::tensor::InsertOp::create(b, loc, next, now[1], ValueRange{})};
      });
  Tensor indices = Emitter::wrap(results[0], kI64);
  indices.extents[0] = results[1];
  return indices;
}

/// Returns the slices along an axis (without one: the elements) whose condition is true. A condition may be shorter
/// than the axis; elements beyond either are dropped.
Results lowerCompress(Node& n, Emitter& e) {
  Tensor x = n.in(0);
  const Tensor& condition = n.in(1);
  if (condition.dtype != v1::DATA_TYPE_BOOL || condition.rank() != 1) {
    return n.invalid("the condition is no list of bool",
                     {.attribute = "condition",
                      .found = absl::StrCat(typeName(condition.dtype), " of ", shapeText(condition.shape)),
                      .accepted = "bool, one dimension"});
  }
  int64_t axis = 0;
  if (n.hasAttribute("axis")) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.axis("axis", std::nullopt, x.rank()));
  } else if (x.rank() != 1) {
    TESSERA_RETURN_IF_ERROR(refuseExtents(n, 0, "all dimensions are merged into one"));
    x = e.reshape(x, {x.elements()});
  }
  const int64_t limit = std::min(x.shape[axis], condition.shape[0]);
  Shape shape = x.shape;
  shape[axis] = limit;
  if (elementCount(shape) == 0 && (limit == 0 || !condition.constant)) {
    if (limit > 0) return n.invalid("the condition selects from an empty tensor", {.found = shapeText(x.shape)});
    return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  }
  const Tensor indices = selected(e, condition, x, axis, limit);
  shape[axis] = indices.shape[0];
  // Nothing is selected.
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  Value source = e.value(x), index = e.value(indices);
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    llvm::SmallVector<Value> from(at);
    // Indices beyond the extent are clamped: their elements do not count.
    from[axis] = coordinate(s, e.extract(s, index, at[axis]), kI64, x.shape[axis]);
    return e.extract(s, source, from);
  });
  result.extents = x.extents;
  result.extents.erase(axis);
  setExtent(result, axis, extentOf(indices, 0));
  return {{std::move(result)}};
}

}  // namespace

std::vector<Operator> dataDependentOperators() {
  return withExtents(extentsByLowering, {
                                            {"NonZero", 9, 1, 1, lowerNonZero},
                                            {"Compress", 9, 2, 2, lowerCompress},
                                        });
}

}  // namespace tessera::compiler
