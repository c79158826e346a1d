#include "compiler/import/ops/dynamic_resize.h"

#include "compiler/import/ops/coordinates.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Returns the input coordinate of element `at`, like sourceCoordinate() for lengths known at import.
Value liveCoordinate(const Scalars& f, const ResizeMode& mode, Value at, Value input, Value output, double scale) {
  const Value half = f.constant(0.5), one = f.constant(1);
  if (mode.coordinates == Coordinates::kAlignCorners) {
    const Value whole = f.div(f.mul(at, f.sub(input, one)), f.sub(output, one));
    return f.select(f.compare(Relation::kLess, one, output), whole, f.constant(0));
  }
  const bool centered = mode.coordinates != Coordinates::kAsymmetric;
  const Value place = centered ? f.add(at, half) : at;
  // The inverse of the resize: position times input length over output length.
  Value back = f.div(f.mul(place, input), output);
  if (scale > 0) {  // otherwise the scale follows from both lengths
    const Scalars single = f.as(v1::DATA_TYPE_F32);
    const Value ratio = f.cast(f.div(output, input), v1::DATA_TYPE_F32);
    const Value given = f.cast(f.constant(scale), v1::DATA_TYPE_F32);
    // Nearest needs the reference's scale in f32, since a last bit decides which element it picks.
    const bool picks = mode.interpolation == Interpolation::kNearest;
    Value scaled = f.div(place, f.constant(picks ? shortestDecimal(scale) : scale));
    if (picks) scaled = single.cast(f.cast(scaled, v1::DATA_TYPE_F32), v1::DATA_TYPE_F64);
    back = f.select(single.compare(Relation::kEqual, ratio, given), back, scaled);
  }
  if (centered) back = f.sub(back, half);
  if (mode.coordinates != Coordinates::kPytorchHalfPixel) return back;
  return f.select(f.compare(Relation::kLess, one, output), back, f.constant(0));
}

Value liveNearest(const Scalars& f, Rounding rounding, Value at) {
  switch (rounding) {
    case Rounding::kRoundPreferFloor:
      // Halves go down: the ceiling of at - 1/2.
      return f.math<mlir::math::CeilOp>(f.sub(at, f.constant(0.5)));
    case Rounding::kRoundPreferCeil:
      return f.math<mlir::math::FloorOp>(f.add(at, f.constant(0.5)));
    case Rounding::kFloor:
      return f.math<mlir::math::FloorOp>(at);
    case Rounding::kCeil:
      return f.math<mlir::math::CeilOp>(at);
  }
  return at;
}

}  // namespace

bool supportsDynamicResize(const ResizeMode& mode) {
  const bool known = mode.coordinates == Coordinates::kHalfPixel ||
                     mode.coordinates == Coordinates::kPytorchHalfPixel ||
                     mode.coordinates == Coordinates::kAlignCorners || mode.coordinates == Coordinates::kAsymmetric;
  return known && mode.interpolation != Interpolation::kCubic && !mode.antialias;
}

Tensor resizeDynamic(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                     const DynamicDimension& live) {
  const bool linear = mode.interpolation == Interpolation::kLinear;
  const Value input = e.value(live.input), output = e.value(live.output);
  // Coordinates are computed in f64 and in each run, as both lengths are known only then.
  const auto of_output = [&](const Scalars& s, Value at, auto use) {
    const Scalars f = s.as(v1::DATA_TYPE_F64), whole = s.as(v1::DATA_TYPE_I64);
    const auto real = [&](Value number) { return whole.cast(number, v1::DATA_TYPE_F64); };
    const Value length = e.extract(whole, input, {});
    const Value from =
        liveCoordinate(f, mode, real(position(s, at)), real(length), real(e.extract(whole, output, {})), live.scale);
    return use(f, whole, from, whole.sub(length, whole.integer(1)));
  };
  // The first source element of each result element, and the distance to the next.
  const Tensor first = e.generate(v1::DATA_TYPE_I64, {outputs}, [&](const Scalars& s, ValueRange at) {
    return of_output(s, at[0], [&](const Scalars& f, const Scalars& whole, Value from, Value last) -> Value {
      const Value below =
          f.cast(linear ? f.math<mlir::math::FloorOp>(from) : liveNearest(f, mode.rounding, from), v1::DATA_TYPE_I64);
      // Clamps to the elements that exist: at the borders the last element repeats.
      return whole.min(whole.max(below, whole.integer(0)), last);
    });
  });
  const Tensor next = !linear ? first : e.generate(v1::DATA_TYPE_I64, {outputs}, [&](const Scalars& s, ValueRange at) {
    return of_output(s, at[0], [&](const Scalars& f, const Scalars& whole, Value from, Value last) -> Value {
      const Value below = f.cast(f.math<mlir::math::FloorOp>(from), v1::DATA_TYPE_I64);
      return whole.min(whole.max(whole.add(below, whole.integer(1)), whole.integer(0)), last);
    });
  });
  const Tensor weight = !linear ? first : e.generate(x.dtype, {outputs}, [&](const Scalars& s, ValueRange at) {
    return of_output(s, at[0], [&](const Scalars& f, const Scalars&, Value from, Value) -> Value {
      return f.cast(f.sub(from, f.math<mlir::math::FloorOp>(from)), x.dtype);
    });
  });
  Shape shape = x.shape;
  shape[axis] = outputs;
  const auto rank = static_cast<unsigned>(x.rank());
  const AffineMap along = AffineMap::get(
      rank, 0, {mlir::getAffineDimExpr(static_cast<unsigned>(axis), e.b.getContext())}, e.b.getContext());
  llvm::SmallVector<Access> operands = {{first, along}};
  if (linear) operands.append({{next, along}, {weight, along}});
  const Value source = e.value(x);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  return e.generic(x.dtype, shape, operands, e.b.getMultiDimIdentityMap(rank), loops, nullptr,
                   [&](const Scalars& any, ValueRange v) -> Value {
                     const Scalars s = any.as(x.dtype);
                     llvm::SmallVector<Value> from;
                     for (unsigned d = 0; d < rank; ++d) from.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
                     from[axis] = clampedCoordinate(s, v[0], x.shape[axis]);
                     const Value element = e.extract(s, source, from);
                     if (!linear) return element;
                     from[axis] = clampedCoordinate(s, v[1], x.shape[axis]);
                     const Value other = e.extract(s, source, from);
                     // A neighbour with weight 0 must not contribute, even if it is infinite.
                     const Value mixed = s.fma(s.sub(s.constant(1), v[2]), element, s.mul(v[2], other));
                     return s.select(s.compare(Relation::kEqual, v[2], s.constant(0)), element, mixed);
                   });
}

Tensor cropAndResizeDynamic(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                            const Tensor& region, int64_t start, int64_t end) {
  const bool linear = mode.interpolation == Interpolation::kLinear;
  const int64_t input = x.shape[axis];
  const Value corners = e.value(region);
  // The coordinate of each result in the input, computed once and not per element.
  const Tensor places = e.generate(v1::DATA_TYPE_F64, {outputs}, [&](const Scalars& f, ValueRange at) {
    const auto corner = [&](int64_t which) {
      const Value place = mlir::arith::ConstantIndexOp::create(f.b, f.loc, which);
      const Scalars given = f.as(region.dtype);
      return given.cast(e.extract(given, corners, {place}), v1::DATA_TYPE_F64);
    };
    const Value from = corner(start), to = corner(end), last = f.constant(static_cast<double>(input - 1));
    // A single result takes the middle of the region.
    if (outputs == 1) return f.mul(f.mul(f.constant(0.5), f.add(from, to)), last);
    const Value output = f.as(v1::DATA_TYPE_I64).cast(position(f, at[0]), v1::DATA_TYPE_F64);
    const Value way = f.mul(f.mul(output, f.sub(to, from)), last);
    return f.add(f.mul(from, last), f.div(way, f.constant(static_cast<double>(outputs - 1))));
  });
  Shape shape = x.shape;
  shape[axis] = outputs;
  const auto rank = static_cast<unsigned>(x.rank());
  const AffineMap along = AffineMap::get(
      rank, 0, {mlir::getAffineDimExpr(static_cast<unsigned>(axis), e.b.getContext())}, e.b.getContext());
  const llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  const Value source = e.value(x);
  return e.generic(
      x.dtype, shape, {{places, along}}, e.b.getMultiDimIdentityMap(rank), loops, nullptr,
      [&](const Scalars& any, ValueRange v) -> Value {
        const Scalars s = any.as(x.dtype), f = any.as(v1::DATA_TYPE_F64), whole = any.as(v1::DATA_TYPE_I64);
        const Value below = linear ? f.math<mlir::math::FloorOp>(v[0]) : liveNearest(f, mode.rounding, v[0]);
        llvm::SmallVector<Value> from;
        for (unsigned d = 0; d < rank; ++d) from.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
        const Value first = f.cast(below, v1::DATA_TYPE_I64);
        from[axis] = clampedCoordinate(s, first, input);
        Value result = e.extract(s, source, from);
        // Interpolates between the two neighbours, as long as both have weight: zero times infinity is NaN.
        if (linear) {
          from[axis] = clampedCoordinate(s, whole.add(first, whole.integer(1)), input);
          const Value other = e.extract(s, source, from), weight = f.cast(f.sub(v[0], below), x.dtype);
          const Value mixed = s.fma(s.sub(s.constant(1), weight), result, s.mul(weight, other));
          result = s.select(s.compare(Relation::kEqual, weight, s.constant(0)), result, mixed);
        }
        const Value inside =
            f.logicalAnd(f.compare(Relation::kGreaterOrEqual, v[0], f.constant(0)),
                         f.compare(Relation::kLessOrEqual, v[0], f.constant(static_cast<double>(input - 1))));
        return s.select(inside, result, s.constant(mode.extrapolation));
      });
}

}  // namespace tessera::compiler
