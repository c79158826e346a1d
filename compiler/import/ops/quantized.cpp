// Quantized operators. An 8-bit element q means (q - zero point) * scale. Products and convolutions are summed exactly
// in 32-bit integers; only the rescaling of a sum is in floating point.
#include "compiler/import/ops/quantized.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/narrow_float.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/convolution.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
using mlir::Value;
using mlir::ValueRange;

absl::StatusOr<Tensor> aligned(Node& n, Emitter& e, int index, const Tensor& x, int64_t axis) {
  const Tensor& t = n.in(index);
  // One value for all elements.
  if (t.elements() == 1) return e.reshape(t, {});
  // One value for each slice along the axis, in the place where it broadcasts.
  if (axis < x.rank() && t.shape == Shape{x.shape[axis]}) {
    Shape shape(x.rank() - axis, 1);
    shape[0] = x.shape[axis];
    return e.reshape(t, std::move(shape));
  }
  // Any shape that broadcasts without enlarging x.
  auto shape = broadcastShape(x.shape, t.shape);
  if (t.rank() == x.rank() && shape && *shape == x.shape) return t;
  return n.invalid(
      absl::StrCat("input ", index, " has the shape ", shapeText(t.shape)),
      {.attribute = absl::StrCat("input ", index),
       .found = shapeText(t.shape),
       .accepted = absl::StrCat("one element, or one for each slice along axis ", axis, " of ", shapeText(x.shape))});
}

namespace {

absl::Status requireType(Node& n, int index, v1::DataType type) {
  if (n.in(index).dtype == type) return absl::OkStatus();
  return n.invalid(
      absl::StrCat("input ", index, " is ", typeName(n.in(index).dtype)),
      {.attribute = absl::StrCat("input ", index), .found = typeName(n.in(index).dtype), .accepted = typeName(type)});
}

absl::Status requireFloat(Node& n, int index) {
  if (isFloat(n.in(index).dtype)) return absl::OkStatus();
  return n.invalid(
      absl::StrCat("input ", index, " is ", typeName(n.in(index).dtype)),
      {.attribute = absl::StrCat("input ", index), .found = typeName(n.in(index).dtype), .accepted = "floating point"});
}

/// Returns q - zero point in i32, exact for operands of 8 and 16 bits. The zero point may be absent.
absl::StatusOr<Tensor> shifted(Node& n, Emitter& e, const Tensor& q, int zero_point, int64_t axis) {
  TESSERA_RETURN_IF_ERROR(n.checkResult(q.shape, kI32));
  if (elementBytes(q.dtype) > 2 || !isInteger(q.dtype)) {
    return n.unsupported("operands of this type",
                         {.found = typeName(q.dtype), .accepted = "integers of 8 and 16 bits"});
  }
  if (!n.has(zero_point)) {
    Tensor wide = e.cast(q, kI32);
    wide.extents = q.extents;
    return wide;
  }
  TESSERA_RETURN_IF_ERROR(requireType(n, zero_point, q.dtype));
  TESSERA_ASSIGN_OR_RETURN(const Tensor zero, aligned(n, e, zero_point, q, axis));
  Tensor result = e.elementwise(kI32, {q, zero}, [](const Scalars& s, ValueRange v) {
    return s.as(kI32).sub(s.cast(v[0], kI32), s.cast(v[1], kI32));
  });
  result.extents = q.extents;
  return result;
}

/// Checks that scales and zero points from input `first` on do not vary along bounded dimensions.
absl::Status requireOne(const Node& n, int of, std::initializer_list<int> inputs) {
  const Tensor& x = n.in(of);
  for (const int i : inputs) {
    if (!n.has(i) || n.in(i).elements() == 1) continue;
    for (const auto& [dim, extent] : x.extents) {
      return refuseExtent(n, of, dim, absl::StrCat("input ", i, " is given for some elements apart"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Value quantize(const Scalars& s, Value x, Value zero_point, v1::DataType to) {
  return s.cast(s.add(s.math<mlir::math::RoundEvenOp>(x), s.as(to).cast(zero_point, s.type)), to);
}

namespace {

/// The axis, and the number of elements along it, of each scale and zero point of x. block is 0 without blocks.
struct Granularity {
  int64_t axis = 1, block = 0;
};

absl::StatusOr<Granularity> readGranularity(Node& n) {
  // The axis matters only if values vary.
  Granularity g;
  TESSERA_ASSIGN_OR_RETURN(g.block, n.integer("block_size", 0));
  TESSERA_ASSIGN_OR_RETURN(g.axis, n.integer("axis", 1));
  if (n.in(1).elements() != 1 || g.block != 0) {
    TESSERA_ASSIGN_OR_RETURN(g.axis, n.normalizeAxis(g.axis, n.in(0).rank(), "axis"));
  }
  g.axis = std::max<int64_t>(g.axis, 0);
  if (g.block >= 0) return g;
  return n.invalid("bad block size",
                   {.attribute = "block_size", .found = absl::StrCat(g.block), .accepted = "0 and above"});
}

/// Returns input `index` in a shape that broadcasts against the node's first input. A value per block is repeated for
/// its elements; the last block may be shorter.
absl::StatusOr<Tensor> spread(Node& n, Emitter& e, int index, const Granularity& g) {
  const Tensor& x = n.in(0);
  if (g.block == 0) return aligned(n, e, index, x, g.axis);
  const Tensor& t = n.in(index);
  Shape expected = x.shape;
  // Rounds up: the last block may be shorter.
  expected[g.axis] = (x.shape[g.axis] + g.block - 1) / g.block;
  if (t.shape != expected) {
    return n.invalid(
        absl::StrCat("input ", index, " has the shape ", shapeText(t.shape)),
        {.attribute = absl::StrCat("input ", index), .found = shapeText(t.shape), .accepted = shapeText(expected)});
  }
  // Each value is repeated over its block by a broadcast along a new dimension.
  Shape split = t.shape, wide, whole = t.shape;
  split.insert(split.begin() + g.axis + 1, 1);
  wide = split;
  wide[g.axis + 1] = std::min(g.block, x.shape[g.axis]);
  whole[g.axis] *= wide[g.axis + 1];
  TESSERA_RETURN_IF_ERROR(n.checkResult(whole, t.dtype));
  const Tensor repeated = e.reshape(e.broadcast(e.reshape(t, split), wide), whole);
  // The last block's surplus is cut off.
  return e.slice(repeated, std::vector<int64_t>(x.rank(), 0), x.shape, std::vector<int64_t>(x.rank(), 1));
}

/// Like an elementwise operator, unless scales vary along a bounded dimension.
absl::Status quantizedExtents(Node& n, Emitter& e, std::vector<Tensor>& results) {
  TESSERA_ASSIGN_OR_RETURN(const Granularity g, readGranularity(n));
  for (const int i : {1, 2}) {
    if (!n.has(i) || n.in(i).elements() == 1) continue;
    const bool along_axis = n.in(i).rank() == 1 && n.in(0).rank() > 1;
    for (const auto& [dim, extent] : n.in(0).extents) {
      if (along_axis ? dim != g.axis : n.in(i).rank() == n.in(0).rank() && n.in(i).shape[dim] == 1) continue;
      return refuseExtent(n, 0, dim, absl::StrCat("input ", i, " is given along it"));
    }
  }
  return unaryExtents(n, e, results);
}

absl::Status requireScale(Node& n, int index) {
  return n.in(index).dtype == kF8E8M0 || n.in(index).dtype == kI32 ? absl::OkStatus() : requireFloat(n, index);
}

Results lowerQuantizeLinear(Node& n, Emitter& e) {
  Tensor x = n.in(0);
  if (x.dtype != kI32) {
    TESSERA_RETURN_IF_ERROR(requireFloat(n, 0));
  }
  NarrowRounding rounding;
  TESSERA_ASSIGN_OR_RETURN(rounding.saturate, n.flag("saturate", true));
  TESSERA_ASSIGN_OR_RETURN(const Granularity g, readGranularity(n));
  TESSERA_ASSIGN_OR_RETURN(const int64_t given, n.integer("output_dtype", 0));
  v1::DataType to = v1::DATA_TYPE_U8;
  if (given != 0) {
    TESSERA_ASSIGN_OR_RETURN(to, n.dataType("output_dtype", to));
  }
  // The zero point's type decides the result's.
  if (n.has(2)) to = n.in(2).dtype;
  if (!isNarrowFloat(to) && (!isInteger(to) || elementBytes(to) > 2)) {
    return n.unsupported("results of this type",
                         {.found = typeName(to), .accepted = "integers of up to 16 bits, float8, float4"});
  }
  TESSERA_RETURN_IF_ERROR(requireScale(n, 1));
  // The quotient is rounded to the requested precision, by default that of the scale.
  v1::DataType quotient = isFloat(n.in(1).dtype) ? n.in(1).dtype : kF32;
  TESSERA_ASSIGN_OR_RETURN(const int64_t precision, n.integer("precision", 0));
  if (precision != 0) {
    TESSERA_ASSIGN_OR_RETURN(quotient, n.dataType("precision", quotient));
  }
  if (n.opset() < 23) quotient = kF32;  // 16-bit floats are divided in f32 and rounded once
  TESSERA_RETURN_IF_ERROR(n.checkResult(x.shape, kF32));
  TESSERA_ASSIGN_OR_RETURN(const Tensor scale, spread(n, e, 1, g));
  // Without a zero point it is 0.
  Tensor zero = Emitter::wrap(makeConstant(to, {}, std::string(elementBytes(to), '\0')));
  if (n.has(2)) {
    TESSERA_ASSIGN_OR_RETURN(zero, spread(n, e, 2, g));
  }
  return {{e.elementwise(to, {x, scale, zero}, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(kF32);
    Value ratio = real.div(s.cast(v[0], kF32), s.as(scale.dtype).cast(v[1], kF32));
    // A 16-bit precision rounds the quotient before it is rounded to an integer.
    if (elementBytes(quotient) == 2) ratio = s.as(quotient).cast(real.cast(ratio, quotient), kF32);
    if (!isNarrowFloat(to)) return quantize(real, ratio, v[2], to);
    return encodeNarrow(real, real.add(ratio, s.as(to).cast(v[2], kF32)), to, rounding);
  })}};
}

Results lowerDequantizeLinear(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const Granularity g, readGranularity(n));
  TESSERA_RETURN_IF_ERROR(requireScale(n, 1));
  v1::DataType to = isFloat(n.in(1).dtype) ? n.in(1).dtype : kF32;
  TESSERA_ASSIGN_OR_RETURN(const int64_t given, n.integer("output_dtype", 0));
  if (given != 0) {
    TESSERA_ASSIGN_OR_RETURN(to, n.dataType("output_dtype", to));
  }
  if (!isFloat(to)) {
    return n.invalid("results of this type",
                     {.attribute = "output_dtype", .found = typeName(to), .accepted = "floating point"});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(x.shape, to));
  TESSERA_ASSIGN_OR_RETURN(const Tensor scale, spread(n, e, 1, g));
  std::vector<Tensor> operands = {x, scale};
  if (n.has(2)) {
    TESSERA_RETURN_IF_ERROR(requireType(n, 2, x.dtype));
    TESSERA_ASSIGN_OR_RETURN(const Tensor zero, spread(n, e, 2, g));
    operands.push_back(zero);
  }
  // Narrow floats are subtracted as floats, integers exactly in 32 bits.
  const bool real_input = isNarrowFloat(x.dtype);
  return {{e.elementwise(to, operands, [&](const Scalars& s, ValueRange v) {
    const Scalars wide = s.as(real_input ? kF32 : kI32), real = s.as(kF32);
    Value q = s.cast(v[0], wide.type);
    if (v.size() == 3) q = wide.sub(q, s.cast(v[2], wide.type));
    return real.cast(real.mul(wide.cast(q, kF32), s.as(scale.dtype).cast(v[1], kF32)), to);
  })}};
}

}  // namespace

ScaledU8 quantizeDynamically(Emitter& e, const Tensor& x) {
  const v1::DataType u8 = v1::DATA_TYPE_U8;
  Tensor all = e.reshape(x, {x.elements()});
  std::vector<int64_t> dims = {0};
  // With extents all dimensions are reduced as they are, because flattening would mix used and unused elements.
  if (!x.extents.empty()) {
    all = x;
    dims.resize(x.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  const Tensor least = e.reshape(reduceBounded(e, all, dims, Reduction::kMin), {});
  const Tensor most = e.reshape(reduceBounded(e, all, dims, Reduction::kMax), {});
  Tensor scale = e.elementwise(kF32, {least, most}, [](const Scalars& s, ValueRange v) {
    // The range always contains 0, so that zeros stay exact.
    Value range = s.sub(s.max(v[1], s.constant(0)), s.min(v[0], s.constant(0)));
    // All elements are zero: any scale except 0, the divisor, is correct.
    Value none = s.compare(Relation::kEqual, range, s.constant(0));
    return s.select(none, s.constant(1), s.div(range, s.constant(255)));
  });
  Tensor zero = e.elementwise(u8, {least, scale}, [&](const Scalars& s, ValueRange v) {
    Value place = s.div(s.sub(s.constant(0), s.min(v[0], s.constant(0))), v[1]);
    return s.cast(s.math<mlir::math::RoundEvenOp>(place), u8);
  });
  Tensor y = e.elementwise(u8, {x, scale, zero},
                           [&](const Scalars& s, ValueRange v) { return quantize(s, s.div(v[0], v[1]), v[2], u8); });
  return {y, scale, zero};
}

namespace {

Results lowerDynamicQuantizeLinear(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(requireType(n, 0, kF32));
  if (x.elements() == 0) return n.invalid("the input is empty", {.attribute = "x", .found = shapeText(x.shape)});
  ScaledU8 quantized = quantizeDynamically(e, x);
  quantized.y.extents = x.extents;
  return {{quantized.y, quantized.scale, quantized.zero}};
}

Results lowerMatMulInteger(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(requireOne(n, 0, {2}));
  TESSERA_RETURN_IF_ERROR(requireOne(n, 1, {3}));
  // Zero points of A vary along its rows, those of B along its columns.
  TESSERA_ASSIGN_OR_RETURN(Tensor a, shifted(n, e, n.in(0), 2, std::max<int64_t>(n.in(0).rank() - 2, 0)));
  TESSERA_ASSIGN_OR_RETURN(Tensor b, shifted(n, e, n.in(1), 3, std::max<int64_t>(n.in(1).rank() - 1, 0)));
  if (a.rank() > 0 && b.rank() > 0) TESSERA_RETURN_IF_ERROR(zeroSummed(n, e, a, b, false, false));
  TESSERA_ASSIGN_OR_RETURN(Tensor result, matmul(n, e, std::move(a), std::move(b)));
  return {{std::move(result)}};
}

Results lowerConvInteger(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, shifted(n, e, n.in(0), 2, 1));
  TESSERA_ASSIGN_OR_RETURN(const Tensor w, shifted(n, e, n.in(1), 3, 0));
  TESSERA_ASSIGN_OR_RETURN(Tensor result, convolution(n, e, x, w));
  return {{std::move(result)}};
}

/// Computes round(sum * (x_scale * w_scale / y_scale)) + y_zero_point, saturated. Scales broadcast against the sum.
Tensor requantize(Emitter& e, const Tensor& sum, const Tensor& x_scale, const Tensor& w_scale, const Tensor& y_scale,
                  const Tensor& zero) {
  Tensor factor = e.elementwise(kF32, {x_scale, w_scale, y_scale}, [&](const Scalars& s, ValueRange v) {
    auto real = [&](Value scale) { return s.cast(scale, kF32); };
    const Scalars f32 = s.as(kF32);
    return f32.div(f32.mul(real(v[0]), real(v[1])), real(v[2]));
  });
  const v1::DataType to = zero.dtype;
  return e.elementwise(to, {sum, factor, zero}, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(kF32);
    return quantize(real, real.mul(s.cast(v[0], kF32), v[1]), v[2], to);
  });
}

/// Checks the types of x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero against each other.
absl::Status checkQuantizedTypes(Node& n) {
  TESSERA_RETURN_IF_ERROR(requireFloat(n, 1));
  TESSERA_RETURN_IF_ERROR(requireType(n, 4, n.in(1).dtype));
  TESSERA_RETURN_IF_ERROR(requireType(n, 6, n.in(1).dtype));
  if (!isInteger(n.in(7).dtype) || elementBytes(n.in(7).dtype) > 2) {
    return n.unsupported("results of this type",
                         {.found = typeName(n.in(7).dtype), .accepted = "integers of 8 and 16 bits"});
  }
  return absl::OkStatus();
}

Results lowerQLinearMatMul(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(checkQuantizedTypes(n));
  const int64_t rows = std::max<int64_t>(n.in(0).rank() - 2, 0), columns = std::max<int64_t>(n.in(3).rank() - 1, 0);
  TESSERA_RETURN_IF_ERROR(requireOne(n, 0, {1, 2, 6, 7}));
  TESSERA_RETURN_IF_ERROR(requireOne(n, 3, {4, 5, 6, 7}));
  TESSERA_ASSIGN_OR_RETURN(Tensor a, shifted(n, e, n.in(0), 2, rows));
  TESSERA_ASSIGN_OR_RETURN(Tensor b, shifted(n, e, n.in(3), 5, columns));
  if (a.rank() > 0 && b.rank() > 0) TESSERA_RETURN_IF_ERROR(zeroSummed(n, e, a, b, false, false));
  TESSERA_ASSIGN_OR_RETURN(const Tensor a_scale, aligned(n, e, 1, n.in(0), rows));
  TESSERA_ASSIGN_OR_RETURN(const Tensor b_scale, aligned(n, e, 4, n.in(3), columns));
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum, matmul(n, e, a, b));
  TESSERA_ASSIGN_OR_RETURN(const Tensor y_scale, aligned(n, e, 6, sum, std::max<int64_t>(sum.rank() - 2, 0)));
  TESSERA_ASSIGN_OR_RETURN(const Tensor zero, aligned(n, e, 7, sum, std::max<int64_t>(sum.rank() - 2, 0)));
  auto together = broadcastShape(a_scale.shape, b_scale.shape);
  if (together) together = broadcastShape(*together, sum.shape);
  if (!together || *together != sum.shape) {
    return n.unsupported("scales that do not broadcast to the product",
                         {.attribute = "a_scale", .found = shapeText(a_scale.shape), .accepted = shapeText(sum.shape)});
  }
  return {{requantize(e, sum, a_scale, b_scale, y_scale, zero)}};
}

/// Like the extents of a product of inputs 0 and 3.
absl::Status quantizedProductExtents(Node& n, Emitter& e, std::vector<Tensor>& results) {
  std::vector<Tensor> given = n.exchangeInputs({n.in(0), n.in(3)});
  const absl::Status status = productExtents(n, e, results);
  n.exchangeInputs(std::move(given));
  return status;
}

Results lowerQLinearConv(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(checkQuantizedTypes(n));
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, shifted(n, e, n.in(0), 2, 1));
  TESSERA_ASSIGN_OR_RETURN(const Tensor w, shifted(n, e, n.in(3), 5, 0));
  TESSERA_ASSIGN_OR_RETURN(const Tensor product, convolution(n, e, x, w));
  if (n.has(8)) TESSERA_RETURN_IF_ERROR(requireType(n, 8, kI32));
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum, addBias(n, e, product, 8));
  for (int i : {1, 6, 7}) {
    if (n.in(i).elements() == 1) continue;
    return n.invalid(absl::StrCat("input ", i, " is not one element"),
                     {.attribute = absl::StrCat("input ", i), .found = shapeText(n.in(i).shape), .accepted = "1"});
  }
  // One factor per output channel is along dimension 1 of the sum.
  TESSERA_ASSIGN_OR_RETURN(const Tensor w_scale, aligned(n, e, 4, sum, 1));
  auto scalar = [&](int i) { return e.reshape(n.in(i), {}); };
  Tensor result = requantize(e, sum, scalar(1), w_scale, scalar(6), scalar(7));
  result.extents = product.extents;
  return {{std::move(result)}};
}

}  // namespace

constexpr auto kQuantized = static_cast<TypeSet>(kIntegers | kNarrow);

std::vector<Operator> quantizedOperators() {
  return {
      {"QuantizeLinear", 10, 2, 3, lowerQuantizeLinear, kNumbers, 1, INT_MAX, "", quantizedExtents},
      {"DequantizeLinear", 10, 2, 3, lowerDequantizeLinear, kQuantized, 1, INT_MAX, "", quantizedExtents},
      {"QuantizeLinear", 1, 2, 3, lowerQuantizeLinear, kNumbers, 1, INT_MAX, kMicrosoft, quantizedExtents},
      {"DequantizeLinear", 1, 2, 3, lowerDequantizeLinear, kQuantized, 1, INT_MAX, kMicrosoft, quantizedExtents},
      {"DynamicQuantizeLinear", 11, 1, 1, lowerDynamicQuantizeLinear, kFloats, 1, INT_MAX, "", extentsByLowering},
      {"MatMulInteger", 10, 2, 4, lowerMatMulInteger, kIntegers, 1, INT_MAX, "", productExtents},
      {"ConvInteger", 10, 2, 4, lowerConvInteger, kIntegers, 1, INT_MAX, "", extentsByLowering},
      {"QLinearMatMul", 10, 8, 8, lowerQLinearMatMul, kIntegers, 1, INT_MAX, "", quantizedProductExtents},
      {"QLinearConv", 10, 8, 9, lowerQLinearConv, kIntegers, 1, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
