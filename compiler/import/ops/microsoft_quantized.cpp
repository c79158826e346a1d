// ONNX Runtime's quantized operators: elements are dequantized, computed in single precision, and quantized again.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/import/ops/quantized.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

absl::Status requireScale(Node& n, int scale, int zero, v1::DataType type) {
  // These operators have one scale and zero point for the whole tensor.
  const bool one = n.in(scale).elements() == 1 && (!n.has(zero) || n.in(zero).elements() == 1);
  if (elementBytes(type) > 2 || !isInteger(type)) {
    return n.unsupported("quantized elements of this type", {.attribute = absl::StrCat("input ", scale - 1),
                                                             .found = typeName(type),
                                                             .accepted = "integers of 8 or 16 bits"});
  }
  if (one && n.in(scale).dtype == kF32 && (!n.has(zero) || n.in(zero).dtype == type)) return absl::OkStatus();
  return n.invalid("a scale or zero point does not fit",
                   {.attribute = absl::StrCat("input ", scale),
                    .found = absl::StrCat(typeName(n.in(scale).dtype), " ", shapeText(n.in(scale).shape)),
                    .accepted = absl::StrCat("one f32 and one ", typeName(type))});
}

Tensor zeroPoint(Node& n, Emitter& e, int zero, v1::DataType type) {
  return n.has(zero) ? e.reshape(n.in(zero), {})
                     : Emitter::wrap(makeConstant(type, {}, std::string(elementBytes(type), '\0')));
}

/// Returns (q - zero point) * scale; q, scale and zero are inputs of the node.
absl::StatusOr<Tensor> real(Node& n, Emitter& e, int q, int scale, int zero) {
  const v1::DataType type = n.in(q).dtype;
  TESSERA_RETURN_IF_ERROR(requireScale(n, scale, zero, type));
  return e.elementwise(kF32, {n.in(q), e.reshape(n.in(scale), {}), zeroPoint(n, e, zero, type)},
                       [&](const Scalars& s, ValueRange v) {
                         const Scalars i = s.as(kI32), f = s.as(kF32);
                         return f.mul(i.cast(i.sub(s.cast(v[0], kI32), s.cast(v[2], kI32)), kF32), v[1]);
                       });
}

absl::StatusOr<Tensor> quantized(Node& n, Emitter& e, const Tensor& x, int scale, int zero, v1::DataType type) {
  TESSERA_RETURN_IF_ERROR(requireScale(n, scale, zero, type));
  return e.elementwise(type, {x, e.reshape(n.in(scale), {}), zeroPoint(n, e, zero, type)},
                       [&](const Scalars& s, ValueRange v) { return quantize(s, s.div(v[0], v[1]), v[2], type); });
}

/// Inputs: A, its scale and zero point, the same of B, then of the result.
template <bool kProduct>
Results lowerQLinearBinary(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({3, 4, 6}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor a, real(n, e, 0, 1, 2));
  TESSERA_ASSIGN_OR_RETURN(const Tensor b, real(n, e, 3, 4, 5));
  auto shape = broadcastShape(a.shape, b.shape);
  if (!shape) {
    return n.invalid("the shapes do not broadcast",
                     {.attribute = "B", .found = shapeText(b.shape), .accepted = shapeText(a.shape)});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(*shape, kF32));
  Tensor result = e.elementwise(
      kF32, {a, b}, [](const Scalars& s, ValueRange v) { return kProduct ? s.mul(v[0], v[1]) : s.add(v[0], v[1]); });
  TESSERA_ASSIGN_OR_RETURN(result, quantized(n, e, result, 6, 7, n.in(0).dtype));
  return {{std::move(result)}};
}

/// Inputs: X, its scale and zero point, then those of the result.
Results quantizedUnary(Node& n, Emitter& e, Emitter::Body body) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({3}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, real(n, e, 0, 1, 2));
  TESSERA_ASSIGN_OR_RETURN(Tensor y, quantized(n, e, e.elementwise(kF32, {x}, body), 3, 4, n.in(0).dtype));
  return {{std::move(y)}};
}

Results lowerQLinearSigmoid(Node& n, Emitter& e) {
  return quantizedUnary(n, e, [](const Scalars& s, ValueRange v) {
    return s.div(s.constant(1), s.add(s.constant(1), s.math<mlir::math::ExpOp>(s.neg(v[0]))));
  });
}

Results lowerQLinearLeakyRelu(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 0.01));
  return quantizedUnary(n, e, [alpha](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kLess, v[0], s.constant(0)), s.mul(v[0], s.constant(alpha)), v[0]);
  });
}

Results lowerQLinearGlobalAveragePool(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({3}));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  TESSERA_ASSIGN_OR_RETURN(const bool channels_last, n.flag("channels_last", false));
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, real(n, e, 0, 1, 2));
  std::vector<int64_t> dims;
  // All dimensions but batch and channels.
  for (int64_t d = channels_last ? 1 : 2; d < x.rank() - (channels_last ? 1 : 0); ++d) dims.push_back(d);
  if (x.elements() == 0) return n.invalid("the input is empty", {.attribute = "X", .found = shapeText(x.shape)});
  const Tensor mean = reduceKeepingDims(e, x, dims, Reduction::kMean);
  TESSERA_ASSIGN_OR_RETURN(Tensor y, quantized(n, e, mean, 3, 4, n.in(0).dtype));
  return {{std::move(y)}};
}

/// Applies the ONNX operator of that name, in version `opset`, to dequantized X.
absl::StatusOr<Tensor> through(Node& n, Emitter& e, const char* op, int64_t opset) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({3}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, real(n, e, 0, 1, 2));
  // The operator reads X from input 0, so the dequantized X takes its place for a moment.
  std::vector<Tensor> given = n.exchangeInputs({x});
  Results results = findOperator("", op, opset)->lower(n, e);
  n.exchangeInputs(std::move(given));
  if (!results.ok()) return results.status();
  return quantized(n, e, (*results)[0], 3, 4, n.in(0).dtype);
}

Results lowerQLinearAveragePool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool channels_last, n.flag("channels_last", false));
  if (channels_last) return n.unsupported("channels at the end", {.attribute = "channels_last", .accepted = "0"});
  TESSERA_ASSIGN_OR_RETURN(Tensor y, through(n, e, "AveragePool", kNewestOpset));
  return {{std::move(y)}};
}

/// Along one axis since version 13 of the operator set it refers to, before that along all axes from one on.
Results lowerQLinearSoftmax(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({3}));
  TESSERA_ASSIGN_OR_RETURN(const int64_t opset, n.integer("opset"));
  const int64_t rank = n.in(0).rank();
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, rank));
  std::vector<int64_t> dims = {axis};
  for (int64_t d = axis + 1; opset < 13 && d < rank; ++d) dims.push_back(d);
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, real(n, e, 0, 1, 2));
  const Tensor most = reduceKeepingDims(e, x, dims, Reduction::kMax);
  const Tensor powers = e.elementwise(
      kF32, {x, most}, [](const Scalars& s, ValueRange v) { return s.math<mlir::math::ExpOp>(s.sub(v[0], v[1])); });
  const Tensor sum = reduceKeepingDims(e, powers, dims, Reduction::kSum);
  const Tensor parts =
      e.elementwise(kF32, {powers, sum}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
  TESSERA_ASSIGN_OR_RETURN(Tensor y, quantized(n, e, parts, 3, 4, n.in(0).dtype));
  return {{std::move(y)}};
}

/// Inputs: a condition; X, its scale and zero point; the same of Y; scale and zero point of the result.
Results lowerQLinearWhere(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({1, 2, 4, 5, 7}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, real(n, e, 1, 2, 3));
  TESSERA_ASSIGN_OR_RETURN(const Tensor y, real(n, e, 4, 5, 6));
  auto shape = broadcastShape(x.shape, y.shape);
  if (shape) shape = broadcastShape(*shape, n.in(0).shape);
  if (!shape) {
    return n.invalid("the shapes do not broadcast",
                     {.attribute = "Y", .found = shapeText(y.shape), .accepted = shapeText(x.shape)});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(*shape, kF32));
  const Tensor chosen = e.elementwise(
      kF32, {n.in(0), x, y}, [](const Scalars& s, ValueRange v) { return s.as(kF32).select(v[0], v[1], v[2]); });
  TESSERA_ASSIGN_OR_RETURN(Tensor z, quantized(n, e, chosen, 7, 8, n.in(1).dtype));
  return {{std::move(z)}};
}

/// Inputs: the result's scale and zero point, then for each part the part, its scale and its zero point.
Results lowerQLinearConcat(Node& n, Emitter& e) {
  const int parts = (n.numInputs() - 2) / 3;
  if (parts < 1 || n.numInputs() != 2 + 3 * parts) {
    return n.invalid(absl::StrCat("has ", n.numInputs(), " inputs"),
                     {.found = absl::StrCat(n.numInputs()), .accepted = "2, and 3 for each part"});
  }
  TESSERA_RETURN_IF_ERROR(n.requireInputs({2}));
  const v1::DataType type = n.in(2).dtype;
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", std::nullopt, n.in(2).rank()));
  std::vector<Tensor> list;
  Shape shape = n.in(2).shape;
  shape[axis] = 0;
  for (int i = 0; i < parts; ++i) {
    TESSERA_RETURN_IF_ERROR(n.requireInputs({2 + 3 * i, 3 + 3 * i}));
    const Tensor& part = n.in(2 + 3 * i);
    Shape rest = part.shape;
    // Parts may differ along the axis only.
    if (part.rank() == static_cast<int64_t>(shape.size())) rest[axis] = n.in(2).shape[axis];
    if (rest != n.in(2).shape || part.dtype != type) {
      return n.invalid("the parts cannot be joined",
                       {.found = shapeText(part.shape), .accepted = shapeText(n.in(2).shape)});
    }
    shape[axis] += part.shape[axis];
    // Each part has its own scale and is converted to the result's.
    TESSERA_ASSIGN_OR_RETURN(const Tensor wide, real(n, e, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i));
    TESSERA_ASSIGN_OR_RETURN(list.emplace_back(), quantized(n, e, wide, 0, 1, type));
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, type));
  return {{parts == 1 ? list[0] : e.concat(list, axis)}};
}

/// Multiplies a by b after subtracting zero points, exactly in 32 bits, and scales the product.
absl::StatusOr<Tensor> scaledProduct(Node& n, Emitter& e, const ScaledU8& a, int b, int b_scale, int b_zero, int bias) {
  const Tensor& right = n.in(b);
  if (elementBytes(right.dtype) != 1 || !isInteger(right.dtype) || isNarrow(right.dtype) || right.rank() < 2) {
    return n.unsupported("a right operand of this type",
                         {.attribute = "B", .found = typeName(right.dtype), .accepted = "matrices of 8-bit integers"});
  }
  // Scales per column are allowed, so only types are checked here.
  if (n.in(b_scale).dtype != kF32 || (n.has(b_zero) && n.in(b_zero).dtype != right.dtype)) {
    return requireScale(n, b_scale, b_zero, right.dtype);
  }
  auto less = [&](const Tensor& q, const Tensor& zero) {
    return e.elementwise(kI32, {q, zero}, [&](const Scalars& s, ValueRange v) {
      return s.as(kI32).sub(s.cast(v[0], kI32), s.as(zero.dtype).cast(v[1], kI32));
    });
  };
  Tensor zero = zeroPoint(n, e, n.numInputs(), right.dtype);
  if (n.has(b_zero)) {
    TESSERA_ASSIGN_OR_RETURN(zero, aligned(n, e, b_zero, right, right.rank() - 1));
  }
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum, matmul(n, e, less(a.y, a.zero), less(right, zero)));
  TESSERA_ASSIGN_OR_RETURN(const Tensor scale, aligned(n, e, b_scale, sum, sum.rank() - 1));
  std::vector<Tensor> operands = {sum, a.scale, scale};
  if (n.has(bias)) {
    TESSERA_ASSIGN_OR_RETURN(operands.emplace_back(), aligned(n, e, bias, sum, sum.rank() - 1));
  }
  return e.elementwise(kF32, operands, [](const Scalars& s, ValueRange v) {
    const Scalars f = s.as(kF32);
    Value y = f.mul(s.cast(v[0], kF32), f.mul(v[1], v[2]));
    return v.size() == 4 ? f.add(y, v[3]) : y;
  });
}

Results lowerDynamicQuantizeMatMul(Node& n, Emitter& e) {
  if (n.in(0).dtype != kF32 || n.in(0).elements() == 0) {
    return n.unsupported("a left operand of this type",
                         {.attribute = "A", .found = typeName(n.in(0).dtype), .accepted = "f32, not empty"});
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor y, scaledProduct(n, e, quantizeDynamically(e, n.in(0)), 1, 2, 3, 4));
  return {{std::move(y)}};
}

Results lowerMatMulIntegerToFloat(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(requireScale(n, 2, 4, n.in(0).dtype));
  const ScaledU8 a{n.in(0), e.reshape(n.in(2), {}), zeroPoint(n, e, 4, n.in(0).dtype)};
  TESSERA_ASSIGN_OR_RETURN(Tensor y, scaledProduct(n, e, a, 1, 3, 5, 6));
  return {{std::move(y)}};
}

/// Computes alpha * A' B' + C, where ' may transpose. Inputs: A, its scale and zero point; the same of B, possibly one
/// per column; C in units of the product; scale and zero point of the result, without which the result is f32.
Results lowerQGemm(Node& n, Emitter& e) {
  constexpr int kB = 3, kBScale = 4, kBZero = 5, kC = 6, kScale = 7, kZero = 8;
  TESSERA_RETURN_IF_ERROR(n.requireInputs({1, kB, kBScale}));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 2));
  TESSERA_RETURN_IF_ERROR(n.requireRank(kB, 2, 2));
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 1.0));
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_a, n.flag("transA", false));
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_b, n.flag("transB", false));
  TESSERA_RETURN_IF_ERROR(requireScale(n, 1, 2, n.in(0).dtype));
  const Tensor b = transpose_b ? e.transpose(n.in(kB), {1, 0}) : n.in(kB);
  const int64_t inner = n.in(0).shape[transpose_a ? 0 : 1], columns = b.shape[1];
  if (inner != b.shape[0] || elementBytes(b.dtype) != 1 || n.in(kBScale).dtype != kF32 ||
      (n.has(kBZero) && n.in(kBZero).dtype != b.dtype)) {
    return n.invalid("the right operand does not fit",
                     {.attribute = "B",
                      .found = absl::StrCat(shapeText(n.in(kB).shape), " of ", typeName(b.dtype)),
                      .accepted = absl::StrCat(inner, " rows of 8-bit integers")});
  }
  auto less = [&](const Tensor& q, const Tensor& zero) {
    return e.elementwise(kI32, {q, zero}, [&](const Scalars& s, ValueRange v) {
      return s.as(kI32).sub(s.cast(v[0], kI32), s.cast(v[1], kI32));
    });
  };
  Tensor zero = zeroPoint(n, e, kBZero, b.dtype);
  if (n.has(kBZero) && n.in(kBZero).elements() != 1) {
    TESSERA_ASSIGN_OR_RETURN(zero, aligned(n, e, kBZero, b, 1));
  }
  Tensor sum = product(e, less(n.in(0), zeroPoint(n, e, 2, n.in(0).dtype)), less(b, zero), transpose_a, false);
  if (n.has(kC)) {
    auto shape = broadcastShape(sum.shape, n.in(kC).shape);
    if (!shape || *shape != sum.shape || n.in(kC).dtype != kI32) {
      return n.invalid("C does not fit", {.attribute = "C",
                                          .found = shapeText(n.in(kC).shape),
                                          .accepted = absl::StrCat("i32 that broadcasts to ", shapeText(sum.shape))});
    }
    sum = e.elementwise(kI32, {sum, n.in(kC)}, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
  }
  const bool one_scale = n.in(kBScale).elements() == 1;
  if (!one_scale && n.in(kBScale).shape != Shape{columns}) return requireScale(n, kBScale, kBZero, b.dtype);
  const Tensor b_scale = one_scale ? e.reshape(n.in(kBScale), {}) : n.in(kBScale);
  Tensor y = e.elementwise(kF32, {sum, e.reshape(n.in(1), {}), b_scale}, [&](const Scalars& s, ValueRange v) {
    const Scalars f = s.as(kF32);
    return f.mul(s.cast(v[0], kF32), f.mul(f.mul(f.constant(alpha), v[1]), v[2]));
  });
  if (n.has(kScale)) {
    TESSERA_ASSIGN_OR_RETURN(y, quantized(n, e, y, kScale, kZero, n.in(0).dtype));
  }
  return {{std::move(y)}};
}

}  // namespace

std::vector<Operator> microsoftQuantizedOperators() {
  constexpr auto bytes = kIntegers;
  return {
      {"QLinearAdd", 1, 2, 8, lowerQLinearBinary<false>, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearMul", 1, 2, 8, lowerQLinearBinary<true>, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearSigmoid", 1, 2, 5, lowerQLinearSigmoid, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearLeakyRelu", 1, 2, 5, lowerQLinearLeakyRelu, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearGlobalAveragePool", 1, 2, 5, lowerQLinearGlobalAveragePool, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearAveragePool", 1, 2, 5, lowerQLinearAveragePool, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearSoftmax", 1, 2, 5, lowerQLinearSoftmax, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearWhere", 1, 1, 9, lowerQLinearWhere, kBool, 1, INT_MAX, kMicrosoft},
      {"QGemm", 1, 1, 9, lowerQGemm, bytes, 1, INT_MAX, kMicrosoft},
      {"QLinearConcat", 1, 1, kVariadic, lowerQLinearConcat, kFloats, 1, INT_MAX, kMicrosoft},
      {"DynamicQuantizeMatMul", 1, 3, 5, lowerDynamicQuantizeMatMul, kFloats, 1, INT_MAX, kMicrosoft},
      {"MatMulIntegerToFloat", 1, 4, 7, lowerMatMulIntegerToFloat, bytes, 1, INT_MAX, kMicrosoft},
  };
}

}  // namespace tessera::compiler
