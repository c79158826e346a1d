// Elementwise arithmetic, comparison and logic with NumPy's broadcasting.
#include "compiler/import/ops/elementwise.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/limits.h"
#include "compiler/import/narrow_float.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;
namespace math = mlir::math;

absl::StatusOr<std::vector<Tensor>> binaryOperands(Node& n, Emitter& e) {
  std::vector<Tensor> operands = {n.in(0), n.in(1)};
  // Before version 7 the second operand could be aligned at any axis.
  if (n.opset() < 7 && n.domain().empty()) {
    TESSERA_ASSIGN_OR_RETURN(const bool broadcast, n.flag("broadcast", false));
    const int64_t gap = operands[0].rank() - operands[1].rank();
    TESSERA_ASSIGN_OR_RETURN(int64_t axis, n.integer("axis", gap));
    if (axis < 0) axis += operands[0].rank();
    if (broadcast && axis != gap && axis >= 0 && axis < gap) {
      Shape aligned = operands[1].shape;
      aligned.resize(operands[0].rank() - axis, 1);
      operands[1] = e.reshape(operands[1], std::move(aligned));
    }
  }
  auto shape = broadcastShape(operands[0].shape, operands[1].shape);
  if (!shape) return n.broadcastAll().status();
  TESSERA_RETURN_IF_ERROR(n.checkResult(*shape, operands[0].dtype));
  return operands;
}

namespace {

template <auto kBody>
Results variadic(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Shape shape, n.broadcastAll());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, n.in(0).dtype));
  for (const Tensor& input : n.inputs()) {
    if (input.dtype != n.in(0).dtype) return n.invalid("inputs have different element types");
  }
  // Combines 16 operands at a time, in order, because compile time is quadratic in a kernel's operands.
  constexpr size_t kMost = 16;
  std::vector<Tensor> operands = {n.in(0)};
  for (int i = 1; i < n.numInputs(); ++i) {
    operands.push_back(n.in(i));
    if (operands.size() < kMost && i + 1 < n.numInputs()) continue;
    Tensor result = e.elementwise(n.in(0).dtype, operands, [](const Scalars& s, ValueRange v) {
      Value combined = v[0];
      for (Value next : v.drop_front()) combined = kBody(s, combined, next);
      return combined;
    });
    operands = {std::move(result)};
  }
  return {{std::move(operands[0])}};
}

Results lowerMean(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto sum, (variadic<[](const Scalars& s, Value x, Value y) { return s.add(x, y); }>(n, e)));
  const double count = n.numInputs();
  return {{e.elementwise(n.in(0).dtype, {sum[0]},
                         [count](const Scalars& s, ValueRange v) { return s.div(v[0], s.constant(count)); })}};
}

/// Raises x to a non-negative power y by squaring; six squarings reach every result that does not overflow.
Value integerPower(const Scalars& s, Value x, Value y) {
  Value one = s.integer(1);
  Value result = one;
  Value square = x;
  for (int bit = 0; bit < 6; ++bit) {
    Value odd = arith::AndIOp::create(s.b, s.loc, arith::ShRUIOp::create(s.b, s.loc, y, s.integer(bit)), one);
    result = s.select(s.compare(Relation::kNotEqual, odd, s.integer(0)), s.mul(result, square), result);
    square = s.mul(square, square);
  }
  if (isUnsigned(s.type)) return result;
  // A negative exponent gives 1 / x^|y| truncated: 0 except for x = 1 and x = -1, whose powers depend on parity.
  Value odd = s.compare(Relation::kNotEqual, arith::AndIOp::create(s.b, s.loc, y, one), s.integer(0));
  Value sign = s.select(odd, s.integer(-1), one);
  Value inverse = s.select(s.compare(Relation::kEqual, x, one), one,
                           s.select(s.compare(Relation::kEqual, x, s.integer(-1)), sign, s.integer(0)));
  return s.select(s.compare(Relation::kLess, y, s.integer(0)), inverse, result);
}

Results lowerPow(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto operands, binaryOperands(n, e));
  const v1::DataType base = operands[0].dtype;
  const v1::DataType exponent = operands[1].dtype;
  if (exponent == v1::DATA_TYPE_BOOL) return n.unsupported("exponent of type bool");
  std::optional<double> known;
  if (operands[1].constant && operands[1].elements() == 1) known = operands[1].constant->realAt(0);
  return {{e.elementwise(base, operands, [&](const Scalars& s, ValueRange v) -> Value {
    if (!isFloat(base) && isFloat(exponent)) {
      // Powers of integers with fractional exponents are computed in f64.
      const Scalars wide = s.as(v1::DATA_TYPE_F64);
      Value x = s.cast(v[0], v1::DATA_TYPE_F64);
      Value y = s.as(exponent).cast(v[1], v1::DATA_TYPE_F64);
      // Powers of integers are often integers; a result a few ulps below one would be truncated to the next lower one.
      Value power = wide.math<math::PowFOp>(x, y);
      Value nearest = wide.math<math::RoundEvenOp>(power);
      Value distance = wide.abs(wide.sub(power, nearest));
      Value close = wide.compare(Relation::kLess, distance, wide.mul(wide.abs(power), wide.constant(1e-14)));
      return wide.cast(wide.select(close, nearest, power), base);
    }
    if (!isFloat(base)) return integerPower(s, v[0], s.as(exponent).cast(v[1], base));
    // The most common powers are cheaper and more exact as arithmetic.
    if (known == 1.0) return v[0];
    if (known == 2.0) return s.mul(v[0], v[0]);
    if (known == 3.0) return s.mul(s.mul(v[0], v[0]), v[0]);
    if (known == 0.5) return s.math<math::SqrtOp>(v[0]);
    // An exponent that differs from a whole number in its type stays fractional: a negative base then has no power.
    const bool half = base == v1::DATA_TYPE_F16 || base == v1::DATA_TYPE_BF16;
    const bool doubles = exponent == v1::DATA_TYPE_F64;
    const v1::DataType within = doubles ? exponent : half && exponent != base ? v1::DATA_TYPE_F32 : base;
    const Scalars wide = s.as(within);
    return wide.cast(wide.math<math::PowFOp>(s.cast(v[0], within), s.as(exponent).cast(v[1], within)), base);
  })}};
}

Results lowerMod(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool fmod, n.flag("fmod", false));
  TESSERA_ASSIGN_OR_RETURN(auto operands, binaryOperands(n, e));
  if (!fmod && isFloat(operands[0].dtype)) {
    return n.invalid("floating-point operands need fmod = 1", {.attribute = "fmod", .found = "0", .accepted = "1"});
  }
  return {{e.elementwise(operands[0].dtype, operands, [fmod](const Scalars& s, ValueRange v) {
    return fmod ? s.remainder(v[0], v[1]) : s.floorMod(v[0], v[1]);
  })}};
}

Results lowerBitShift(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const std::string direction, n.text("direction"));
  if (direction != "LEFT" && direction != "RIGHT") {
    return n.invalid("unknown direction", {.attribute = "direction", .found = direction, .accepted = "LEFT, RIGHT"});
  }
  TESSERA_ASSIGN_OR_RETURN(auto operands, binaryOperands(n, e));
  const bool left = direction == "LEFT";
  return {{e.elementwise(operands[0].dtype, operands, [left](const Scalars& s, ValueRange v) -> Value {
    // Shifting by the width or more is undefined in hardware; the result is 0.
    Value width = s.integer(8 * elementBytes(s.type));
    Value in_range = s.compare(Relation::kLess, v[1], width);
    Value amount = s.select(in_range, v[1], s.integer(0));
    Value shifted = left ? Value(arith::ShLIOp::create(s.b, s.loc, v[0], amount))
                         : Value(arith::ShRUIOp::create(s.b, s.loc, v[0], amount));
    return s.select(in_range, shifted, s.integer(0));
  })}};
}

Results lowerWhere(Node& n, Emitter& e) {
  if (n.in(1).dtype != n.in(2).dtype) {
    return n.invalid(
        "the alternatives have different element types",
        {.found = absl::StrCat(typeName(n.in(1).dtype), " and ", typeName(n.in(2).dtype)), .accepted = "one type"});
  }
  TESSERA_ASSIGN_OR_RETURN(const Shape shape, n.broadcastAll());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, n.in(1).dtype));
  return {{e.elementwise(n.in(1).dtype, n.inputs(),
                         [](const Scalars& s, ValueRange v) { return s.select(v[0], v[1], v[2]); })}};
}

Results castTo(Node& n, Emitter& e, v1::DataType to) {
  NarrowRounding rounding;
  TESSERA_ASSIGN_OR_RETURN(rounding.saturate, n.flag("saturate", true));
  TESSERA_ASSIGN_OR_RETURN(const std::string mode, n.text("round_mode", "up"));
  if (mode != "up" && mode != "down" && mode != "nearest") {
    return n.invalid("unknown rounding", {.attribute = "round_mode", .found = mode, .accepted = "up, down, nearest"});
  }
  rounding.mode = mode == "up"     ? NarrowRounding::kUp
                  : mode == "down" ? NarrowRounding::kDown
                                   : NarrowRounding::kNearest;
  TESSERA_RETURN_IF_ERROR(n.checkResult(n.in(0).shape, to));
  const v1::DataType from = n.in(0).dtype;
  // A value outside an integer of 2 or 4 bits keeps its lowest bits, as when converting from an integer.
  if (isNarrow(to) && isInteger(to) && !isInteger(from)) return {{e.cast(e.cast(n.in(0), v1::DATA_TYPE_I32), to)}};
  if (!isNarrowFloat(to) || from == to) return {{e.cast(n.in(0), to)}};
  return {{e.elementwise(to, {n.in(0)}, [&](const Scalars& s, ValueRange v) {
    return encodeNarrow(s.as(v1::DATA_TYPE_F32), s.cast(v[0], v1::DATA_TYPE_F32), to, rounding);
  })}};
}

Results lowerCast(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType to, n.dataType("to", std::nullopt));
  return castTo(n, e, to);
}

Results lowerCastLike(Node& n, Emitter& e) { return castTo(n, e, n.in(1).dtype); }

/// Reinterprets the bits as another type.
Results lowerBitCast(Node& n, Emitter& e) {
  const v1::DataType from = n.in(0).dtype;
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType to, n.dataType("to", std::nullopt));
  const bool booleans = (from == v1::DATA_TYPE_BOOL) != (to == v1::DATA_TYPE_BOOL);
  // Both types need the same number of bits; a boolean is stored as a byte.
  if (elementBits(from) != elementBits(to) || (booleans && isNarrow(from == v1::DATA_TYPE_BOOL ? to : from))) {
    return n.invalid("the types differ in width", {.attribute = "to",
                                                   .found = absl::StrCat(typeName(from), " to ", typeName(to)),
                                                   .accepted = absl::StrCat("types of ", elementBits(from), " bits")});
  }
  return {{e.elementwise(to, {n.in(0)}, [&](const Scalars& s, ValueRange v) -> Value {
    if (from == v1::DATA_TYPE_BOOL) return s.cast(v[0], to);
    // A byte other than 0 and 1 is no bool; any nonzero byte is true.
    if (to == v1::DATA_TYPE_BOOL) return s.cast(v[0], to);
    // Storage of less than 8 bits differs: signed elements are sign-extended in their byte.
    if (elementBits(to) < 8) return from == to ? v[0] : s.as(storageType(from)).lowBits(v[0], to);
    const Scalars target = s.as(to);
    if (target.mlirType() == s.mlirType()) return v[0];
    return arith::BitcastOp::create(s.b, s.loc, target.mlirType(), v[0]);
  })}};
}

Results lowerIsInf(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool negative, n.flag("detect_negative", true));
  TESSERA_ASSIGN_OR_RETURN(const bool positive, n.flag("detect_positive", true));
  return {{e.elementwise(v1::DATA_TYPE_BOOL, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    Value result = s.as(v1::DATA_TYPE_BOOL).integer(0);
    // Infinities are the lowest and highest values of the type.
    if (negative) result = s.logicalOr(result, s.compare(Relation::kEqual, v[0], s.lowest()));
    if (positive) result = s.logicalOr(result, s.compare(Relation::kEqual, v[0], s.highest()));
    return result;
  })}};
}

template <Relation kRelation>
Results compare(Node& n, Emitter& e) {
  return predicate<[](const Scalars& s, ValueRange v) { return s.compare(kRelation, v[0], v[1]); }>(n, e);
}

template <auto kCombine>
Results arithmetic(Node& n, Emitter& e) {
  return binary<[](const Scalars& s, ValueRange v) { return (s.*kCombine)(v[0], v[1]); }>(n, e);
}

template <auto kCombine>
Results logic(Node& n, Emitter& e) {
  return predicate<[](const Scalars& s, ValueRange v) { return (s.*kCombine)(v[0], v[1]); }>(n, e);
}

/// And, Or: if one operand alone decides, the result is known, such as the end of a loop.
template <auto kCombine, bool kDecides>
Results junction(Node& n, Emitter& e) {
  for (const Tensor& x : n.inputs()) {
    if (!x.constant || x.elements() != 1 || (x.constant->integerAt(0) != 0) != kDecides) continue;
    if (n.opset() < 7 || hasBoundedInput(n)) continue;
    TESSERA_ASSIGN_OR_RETURN(const Shape shape, n.broadcastAll());
    const int64_t elements = elementCount(shape);
    // Larger results are not worth being constants.
    if (elements > limits::kSmallFold) continue;
    return {{Emitter::wrap(makeConstant(v1::DATA_TYPE_BOOL, shape, std::string(elements, kDecides ? '\1' : '\0')))}};
  }
  return logic<kCombine>(n, e);
}

template <auto kCombine>
Results fold(Node& n, Emitter& e) {
  return variadic<[](const Scalars& s, Value x, Value y) { return (s.*kCombine)(x, y); }>(n, e);
}

template <typename Op>
Results mathFunction(Node& n, Emitter& e) {
  return unary<[](const Scalars& s, ValueRange v) { return s.math<Op>(v[0]); }>(n, e);
}

Value sign(const Scalars& s, ValueRange v) {
  Value zero = s.constant(0);
  Value negative = isUnsigned(s.type) ? zero : s.constant(-1);
  Value other = s.select(s.compare(Relation::kEqual, v[0], zero), zero, v[0]);  // -0 has the sign 0; NaN stays
  Value result = s.select(s.compare(Relation::kLess, v[0], zero), negative, other);
  return s.select(s.compare(Relation::kGreater, v[0], zero), s.constant(1), result);
}

}  // namespace

std::vector<Operator> elementwiseOperators() {
  return withExtents(
      broadcastExtents,
      {
          {"Add", 1, 2, 2, arithmetic<&Scalars::add>, kNumbers, 2},
          {"Sub", 1, 2, 2, arithmetic<&Scalars::sub>, kNumbers, 2},
          {"Mul", 1, 2, 2, arithmetic<&Scalars::mul>, kNumbers, 2},
          {"Div", 1, 2, 2, arithmetic<&Scalars::div>, kNumbers, 2},
          {"Pow", 1, 2, 2, lowerPow, kNumbers},
          {"Mod", 10, 2, 2, lowerMod, kNumbers, 2},
          {"BitShift", 11, 2, 2, lowerBitShift, kUnsigned, 2},
          {"BitwiseAnd", 18, 2, 2, arithmetic<&Scalars::logicalAnd>, kIntegers, 2},
          {"BitwiseOr", 18, 2, 2, arithmetic<&Scalars::logicalOr>, kIntegers, 2},
          {"BitwiseXor", 18, 2, 2, arithmetic<&Scalars::logicalXor>, kIntegers, 2},
          {"BitwiseNot", 18, 1, 1,
           unary<[](const Scalars& s, ValueRange v) { return s.logicalXor(v[0], s.integer(-1)); }>, kIntegers},
          {"Max", 1, 1, kVariadic, fold<&Scalars::max>, kNumbers},
          {"Min", 1, 1, kVariadic, fold<&Scalars::min>, kNumbers},
          {"Sum", 1, 1, kVariadic, fold<&Scalars::add>, kFloats},
          {"Mean", 1, 1, kVariadic, lowerMean, kFloats},
          {"Equal", 1, 2, 2, compare<Relation::kEqual>, kAll, 2},
          {"Less", 1, 2, 2, compare<Relation::kLess>, kNumbers, 2},
          {"Greater", 1, 2, 2, compare<Relation::kGreater>, kNumbers, 2},
          {"LessOrEqual", 12, 2, 2, compare<Relation::kLessOrEqual>, kNumbers, 2},
          {"GreaterOrEqual", 12, 2, 2, compare<Relation::kGreaterOrEqual>, kNumbers, 2},
          {"And", 1, 2, 2, junction<&Scalars::logicalAnd, false>, kBool, 2},
          {"Or", 1, 2, 2, junction<&Scalars::logicalOr, true>, kBool, 2},
          {"Xor", 1, 2, 2, logic<&Scalars::logicalXor>, kBool, 2},
          {"Not", 1, 1, 1, unary<[](const Scalars& s, ValueRange v) { return s.logicalNot(v[0]); }>, kBool},
          {"Where", 9, 3, 3, lowerWhere, kBool},
          {"Cast", 6, 1, 1, lowerCast, kStored},
          {"CastLike", 15, 2, 2, lowerCastLike, kStored},
          {"BitCast", 26, 1, 1, lowerBitCast, kStored},
          {"Abs", 6, 1, 1, unary<[](const Scalars& s, ValueRange v) { return s.abs(v[0]); }>, kNumbers},
          {"Neg", 6, 1, 1, unary<[](const Scalars& s, ValueRange v) { return s.neg(v[0]); }>, kNumbers},
          {"Sign", 9, 1, 1, unary<sign>, kNumbers},
          {"Reciprocal", 6, 1, 1, unary<[](const Scalars& s, ValueRange v) { return s.div(s.constant(1), v[0]); }>,
           kFloats},
          {"Sqrt", 1, 1, 1, mathFunction<math::SqrtOp>, kFloats},
          {"Exp", 1, 1, 1, mathFunction<math::ExpOp>, kFloats},
          {"Log", 1, 1, 1, mathFunction<math::LogOp>, kFloats},
          {"Floor", 1, 1, 1, mathFunction<math::FloorOp>, kFloats},
          {"Ceil", 1, 1, 1, mathFunction<math::CeilOp>, kFloats},
          {"Round", 11, 1, 1, mathFunction<math::RoundEvenOp>, kFloats},
          {"Erf", 9, 1, 1, mathFunction<math::ErfOp>, kFloats},
          {"Sin", 7, 1, 1, mathFunction<math::SinOp>, kFloats},
          {"Cos", 7, 1, 1, mathFunction<math::CosOp>, kFloats},
          {"Tan", 7, 1, 1, mathFunction<math::TanOp>, kFloats},
          {"Asin", 7, 1, 1, mathFunction<math::AsinOp>, kFloats},
          {"Acos", 7, 1, 1, mathFunction<math::AcosOp>, kFloats},
          {"Atan", 7, 1, 1, mathFunction<math::AtanOp>, kFloats},
          {"Sinh", 9, 1, 1, mathFunction<math::SinhOp>, kFloats},
          {"Cosh", 9, 1, 1, mathFunction<math::CoshOp>, kFloats},
          {"Asinh", 9, 1, 1, mathFunction<math::AsinhOp>, kFloats},
          {"Acosh", 9, 1, 1, mathFunction<math::AcoshOp>, kFloats},
          {"Atanh", 9, 1, 1, mathFunction<math::AtanhOp>, kFloats},
          {"IsNaN", 9, 1, 1,
           [](Node& n, Emitter& e) -> Results {
             return {{e.elementwise(v1::DATA_TYPE_BOOL, {n.in(0)}, [](const Scalars& s, ValueRange v) {
               return s.compare(Relation::kNotEqual, v[0], v[0]);
             })}};
           },
           kFloats},
          {"IsInf", 10, 1, 1, lowerIsInf, kFloats},
      });
}

}  // namespace tessera::compiler
