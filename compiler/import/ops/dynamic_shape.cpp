#include "compiler/import/ops/dynamic_shape.h"

#include <array>

#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/ops/coordinates.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::ValueRange;

bool sameSize(const Node& n, const Tensor& a, const Tensor& b) {
  if (a.constant && b.constant) return a.constant->integerAt(0) == b.constant->integerAt(0);
  return a.value && b.value && n.sameExtent(a.value, b.value);
}

}  // namespace

Tensor productOf(Emitter& e, llvm::ArrayRef<Tensor> factors) {
  // Constants multiply now; only the others cost an operation in each run.
  int64_t known = 1;
  Tensor result;
  for (const Tensor& factor : factors) {
    if (factor.constant) {
      known *= factor.constant->integerAt(0);
      continue;
    }
    result = !result.value ? factor
                           : e.elementwise(v1::DATA_TYPE_I64, {result, factor},
                                           [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
  }
  return result.value ? multiplied(e, result, known) : scalarI64(known);
}

Tensor reshapeDynamic(const Node& n, Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> sizes) {
  const auto to_rank = static_cast<int64_t>(shape.size());
  // Dimensions that both shapes have at the front and at the back keep their coordinates.
  int64_t front = 0, back = 0;
  while (front < std::min(x.rank(), to_rank) && x.shape[front] == shape[front] &&
         sameSize(n, extentOf(x, front), sizes[front]))
    ++front;
  while (back < std::min(x.rank(), to_rank) - front && x.shape[x.rank() - 1 - back] == shape[to_rank - 1 - back] &&
         sameSize(n, extentOf(x, x.rank() - 1 - back), sizes[to_rank - 1 - back]))
    ++back;
  const auto valueOf = [&](const Tensor& size) { return size.constant ? Value() : e.value(size); };
  // Null for a constant size.
  std::vector<Value> from_sizes, to_sizes;
  for (int64_t d = 0; d < x.rank(); ++d) from_sizes.push_back(valueOf(extentOf(x, d)));
  for (const Tensor& size : sizes) to_sizes.push_back(valueOf(size));
  const Value source = e.value(x);
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    const auto sizeOf = [&](Value live, int64_t known) {
      return live ? e.extract(wide, live, {}) : wide.integer(known);
    };
    Value place = wide.integer(0);
    for (int64_t d = front; d < to_rank - back; ++d)
      place = wide.add(wide.mul(place, sizeOf(to_sizes[d], shape[d])), position(s, at[d]));
    llvm::SmallVector<Value> from(x.rank());
    for (int64_t d = 0; d < front; ++d) from[d] = at[d];
    for (int64_t b = 1; b <= back; ++b) from[x.rank() - b] = at[to_rank - b];
    for (int64_t d = x.rank() - back - 1; d >= front; --d) {
      const Value size = wide.max(sizeOf(from_sizes[d], x.shape[d]), wide.integer(1));
      Value coordinate = place;
      if (d > front) {
        coordinate = arith::RemSIOp::create(s.b, s.loc, place, size);
        place = arith::DivSIOp::create(s.b, s.loc, place, size);
      }
      // Does not change used elements, but tells later analyses how many elements of x are read.
      coordinate = wide.min(coordinate, wide.sub(size, wide.integer(1)));
      from[d] = clampedCoordinate(s, coordinate, x.shape[d]);
    }
    return e.extract(s, source, from);
  });
  result.extents.clear();
  for (int64_t d = 0; d < to_rank; ++d)
    if (to_sizes[d]) setExtent(result, d, sizes[d]);
  return result;
}

Tensor tileDynamic(Emitter& e, const Tensor& x, const Shape& shape, llvm::ArrayRef<Tensor> counts) {
  const Value source = e.value(x);
  std::vector<Value> sizes;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const Tensor extent = extentOf(x, d);
    sizes.push_back(extent.constant ? Value() : e.value(extent));
  }
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    // The source of each result element is its position modulo the run-time size, not the bound.
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    llvm::SmallVector<Value> from(at.begin(), at.end());
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (shape[d] == x.shape[d]) continue;
      // A size of 0 would divide by zero; nothing of the result is used then.
      const Value size = sizes[d] ? wide.max(e.extract(wide, sizes[d], {}), wide.integer(1)) : wide.integer(x.shape[d]);
      const Value place = arith::RemSIOp::create(s.b, s.loc, position(s, at[d]), size);
      from[d] = clampedCoordinate(s, place, x.shape[d]);
    }
    return e.extract(s, source, from);
  });
  // Only tiled dimensions get another extent.
  result.extents = x.extents;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (counts[d].constant && counts[d].constant->integerAt(0) == 1) continue;
    result.extents.erase(d);
    setExtent(result, d, productOf(e, {extentOf(x, d), counts[d]}));
  }
  return result;
}

Tensor padDynamic(Emitter& e, const Tensor& x, int64_t dim, const DynamicPadding& padding,
                  llvm::function_ref<Value(const Scalars&)> value) {
  const Value low = e.value(padding.low), extent = e.value(extentOf(x, dim)), source = e.value(x);
  Shape shape = x.shape;
  shape[dim] = padding.most;
  Tensor result = e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    const Value size = e.extract(wide, extent, {});
    const Value place = wide.sub(position(s, at[dim]), e.extract(wide, low, {}));
    const Value inside = wide.logicalAnd(wide.compare(Relation::kGreaterOrEqual, place, wide.integer(0)),
                                         wide.compare(Relation::kLess, place, size));
    llvm::SmallVector<Value> from(at.begin(), at.end());
    // Outside, any valid element will do: select() replaces it.
    from[dim] = clampedCoordinate(s, wide.min(place, wide.sub(size, wide.integer(1))), x.shape[dim]);
    return s.select(inside, e.extract(s, source, from), value(s));
  });
  result.extents = x.extents;
  result.extents.erase(dim);
  setExtent(result, dim, padding.size);
  return result;
}

absl::StatusOr<Tensor> padByShapeValues(const Node& n, Emitter& e, const Tensor& x, int pads,
                                        llvm::function_ref<Value(const Scalars&)> value, const absl::Status& refused) {
  if (n.in(pads).shape != Shape{2 * x.rank()} || !n.in(pads).value) return refused;
  Tensor result = x;
  // Pads one dimension after the other, which adds up to padding all.
  for (int64_t d = 0; d < x.rank(); ++d) {
    std::array<Tensor, 2> amounts = {n.sizeAt(e, pads, d), n.sizeAt(e, pads, x.rank() + d)};
    for (Tensor& amount : amounts) {
      // Examples must tell the least and greatest amounts; data would not.
      const auto bounds = n.bounds(amount);
      if (!bounds) return refused;
      if (bounds->first == bounds->second) amount = scalarI64(bounds->first);
    }
    const auto isNothing = [](const Tensor& amount) { return amount.constant && amount.constant->integerAt(0) == 0; };
    if (isNothing(amounts[0]) && isNothing(amounts[1])) continue;
    DynamicPadding padding;
    padding.low = amounts[0];
    padding.size = e.elementwise(v1::DATA_TYPE_I64, {extentOf(result, d), amounts[0], amounts[1]},
                                 [](const Scalars& s, ValueRange v) { return s.add(s.add(v[0], v[1]), v[2]); });
    const auto bounds = n.bounds(padding.size);
    if (!bounds || bounds->first < 0) return refused;
    padding.most = bounds->second;
    Shape shape = result.shape;
    shape[d] = padding.most;
    TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
    if (elementCount(shape) == 0) return refused;
    result = padDynamic(e, result, d, padding, value);
    // The padded size is the same for all sizes, so later operators may use the constant.
    if (bounds->first == bounds->second) result.extents.erase(d);
  }
  return result;
}

}  // namespace tessera::compiler
