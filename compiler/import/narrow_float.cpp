#include "compiler/import/narrow_float.h"

#include <cmath>

#include "compiler/import/data_types.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
namespace arith = mlir::arith;

constexpr int kF32Mantissa = 23, kF32Bias = 127;
constexpr int64_t kF32Infinity = 0x7f800000;

/// Codes are bits without the sign. `infinity` is -1 if the format has none.
struct Format {
  int bits, mantissa, bias;
  int64_t largest, infinity, nan;
  bool unsigned_zero;  ///< the code of -0 means NaN
};

Format formatOf(v1::DataType type) {
  if (type == kF8E4M3FN) return {8, 3, 7, 0x7e, -1, 0x7f, false};
  if (type == kF8E4M3FNUZ) return {8, 3, 8, 0x7f, -1, 0x80, true};
  if (type == kF8E5M2) return {8, 2, 15, 0x7b, 0x7c, 0x7e, false};
  if (type == kF8E5M2FNUZ) return {8, 2, 16, 0x7f, -1, 0x80, true};
  return {4, 1, 1, 0x7, -1, 0x0, false};  // f4e2m1 has no NaN either: see encodeNarrow()
}

Value shiftLeft(const Scalars& i, Value x, int64_t by) { return arith::ShLIOp::create(i.b, i.loc, x, i.integer(by)); }
Value shiftRight(const Scalars& i, Value x, int64_t by) { return arith::ShRUIOp::create(i.b, i.loc, x, i.integer(by)); }
Value keptBits(const Scalars& i, Value x, int64_t mask) {
  return arith::AndIOp::create(i.b, i.loc, x, i.integer(mask));
}
Value isEqual(const Scalars& i, Value x, int64_t code) { return i.compare(Relation::kEqual, x, i.integer(code)); }
Value isAbove(const Scalars& i, Value x, int64_t code) { return i.compare(Relation::kGreater, x, i.integer(code)); }

Value asFloat(const Scalars& s, Value bits) {
  return arith::BitcastOp::create(s.b, s.loc, mlirType(s.b.getContext(), kF32), bits);
}
Value asBits(const Scalars& s, Value real) {
  return arith::BitcastOp::create(s.b, s.loc, mlirType(s.b.getContext(), kI32), real);
}

Value decodePower(const Scalars& s, Value code) {
  const Scalars i = s.as(kI32), f = s.as(kF32);
  // Code 0 is 2^-127, a subnormal f32: its only bit is the mantissa's highest.
  Value power = i.select(isEqual(i, code, 0), i.integer(1 << (kF32Mantissa - 1)), shiftLeft(i, code, kF32Mantissa));
  return f.select(isEqual(i, code, 0xff), f.constant(NAN), asFloat(s, power));
}

Value encodePower(const Scalars& s, Value x, NarrowRounding rounding) {
  const Scalars i = s.as(kI32);
  Value bits = keptBits(i, asBits(s, x), INT32_MAX);
  Value exponent = shiftRight(i, bits, kF32Mantissa);
  Value rest = keptBits(i, bits, (1 << kF32Mantissa) - 1);
  // A number below f32's smallest power of two has its leading bit in the mantissa: half of the range is 2^-127.
  const int64_t half = 1 << (kF32Mantissa - 1);
  Value tiny = isEqual(i, exponent, 0);
  // Decides whether the power of two above is chosen, by rounding mode.
  Value up;
  if (rounding.mode == NarrowRounding::kUp) {
    up = isAbove(i, rest, 0);
    up = i.select(tiny, isAbove(i, rest, half), up);
  } else if (rounding.mode == NarrowRounding::kNearest) {
    up = i.select(tiny, isAbove(i, rest, half + half / 2 - 1), isAbove(i, rest, half - 1));
  } else {
    up = s.as(v1::DATA_TYPE_BOOL).integer(0);
  }
  Value code = i.add(exponent, s.as(v1::DATA_TYPE_BOOL).cast(up, kI32));
  Value beyond = isAbove(i, code, 0xfe);
  code = i.select(beyond, i.integer(rounding.saturate ? 0xfe : 0xff), code);
  // Without saturation, numbers below the smallest power are NaN, as there is no zero.
  if (!rounding.saturate) {
    Value below = i.logicalAnd(tiny, i.compare(Relation::kLess, rest, i.integer(half)));
    code = i.select(below, i.integer(0xff), code);
  }
  code = i.select(isAbove(i, bits, kF32Infinity), i.integer(0xff), code);
  return i.cast(code, v1::DATA_TYPE_U8);
}

}  // namespace

Value decodeNarrow(const Scalars& s, Value x) {
  const Scalars i = s.as(kI32), f = s.as(kF32);
  Value code = s.as(v1::DATA_TYPE_U8).cast(x, kI32);
  if (s.type == kF8E8M0) return decodePower(s, code);
  const Format format = formatOf(s.type);
  const int64_t sign_bit = int64_t{1} << (format.bits - 1);
  Value magnitude = keptBits(i, code, sign_bit - 1);
  Value digits = keptBits(i, magnitude, (1 << format.mantissa) - 1);
  // Subnormal: digits times the smallest step, exact in f32.
  Value small = f.mul(i.cast(digits, kF32), f.constant(std::ldexp(1.0, 1 - format.bias - format.mantissa)));
  // Normal: shifts the digits to f32's place and corrects the bias.
  Value raised = i.add(shiftLeft(i, magnitude, kF32Mantissa - format.mantissa),
                       i.integer(static_cast<int64_t>(kF32Bias - format.bias) << kF32Mantissa));
  Value subnormal = i.compare(Relation::kLess, magnitude, i.integer(1 << format.mantissa));
  Value value = f.select(subnormal, small, asFloat(s, raised));
  if (format.infinity >= 0) value = f.select(isEqual(i, magnitude, format.infinity), f.constant(INFINITY), value);
  if (format.bits == 8 && !format.unsigned_zero) {
    value = f.select(isAbove(i, magnitude, std::max(format.largest, format.infinity)), f.constant(NAN), value);
  }
  value = f.select(isAbove(i, code, sign_bit - 1), f.neg(value), value);
  return format.unsigned_zero ? f.select(isEqual(i, code, format.nan), f.constant(NAN), value) : value;
}

Value encodeNarrow(const Scalars& s, Value x, v1::DataType to, NarrowRounding rounding) {
  if (to == kF8E8M0) return encodePower(s, x, rounding);
  const Scalars i = s.as(kI32), f = s.as(kF32);
  const Format format = formatOf(to);
  Value all = asBits(s, x);
  Value bits = keptBits(i, all, INT32_MAX);
  // Rounds half to even: half of the last place, minus one if that place is even, carries into the remaining digits.
  const int dropped = kF32Mantissa - format.mantissa;
  Value odd = keptBits(i, shiftRight(i, bits, dropped), 1);
  Value rounded = shiftRight(i, i.add(bits, i.add(odd, i.integer((1 << (dropped - 1)) - 1))), dropped);
  Value normal = i.sub(rounded, i.integer(static_cast<int64_t>(kF32Bias - format.bias) << format.mantissa));
  // Adding this number, whose last place is that of the smallest ones, rounds there.
  const double anchor = std::ldexp(1.0, kF32Mantissa + 1 - format.bias - format.mantissa);
  Value moved = asBits(s, f.add(asFloat(s, bits), f.constant(anchor)));
  Value small = i.sub(moved, asBits(s, f.constant(anchor)));
  Value is_small = i.compare(Relation::kLess, bits, asBits(s, f.constant(std::ldexp(1.0, 1 - format.bias))));
  Value code = i.select(is_small, small, normal);
  // Types of less than 8 bits have neither infinity nor NaN, so they always saturate.
  const bool saturate = rounding.saturate || format.bits < 8;
  const int64_t beyond = saturate ? format.largest : format.infinity >= 0 ? format.infinity : format.nan;
  code = i.select(isAbove(i, code, format.largest), i.integer(beyond), code);
  code = i.select(isAbove(i, bits, kF32Infinity), i.integer(format.nan), code);
  Value negative = i.compare(Relation::kLess, all, i.integer(0));
  // In four bits, ONNX's cases and reference turn a NaN into a zero of the opposite sign.
  if (format.bits == 4) negative = i.logicalXor(negative, isAbove(i, bits, kF32Infinity));
  // Without a negative zero, its code means NaN.
  if (format.unsigned_zero) negative = i.logicalAnd(negative, i.compare(Relation::kNotEqual, code, i.integer(0)));
  Value with_sign = arith::OrIOp::create(s.b, s.loc, code, i.integer(int64_t{1} << (format.bits - 1)));
  return i.cast(i.select(negative, with_sign, code), v1::DATA_TYPE_U8);
}

}  // namespace tessera::compiler
