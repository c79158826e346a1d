#include "compiler/import/scalars.h"

#include <cmath>

#include "compiler/import/narrow_float.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {

using mlir::Value;
namespace arith = mlir::arith;

mlir::Type mlirType(mlir::MLIRContext* context, v1::DataType type) {
  mlir::Builder b(context);
  switch (type) {
    case v1::DATA_TYPE_F32:
      return b.getF32Type();
    case v1::DATA_TYPE_F64:
      return b.getF64Type();
    case v1::DATA_TYPE_F16:
      return b.getF16Type();
    case v1::DATA_TYPE_BF16:
      return b.getBF16Type();
    case v1::DATA_TYPE_BOOL:
      return b.getI1Type();
    default:
      return b.getIntegerType(static_cast<unsigned>(elementBytes(type) * 8));
  }
}

mlir::Type Scalars::mlirType() const { return compiler::mlirType(b.getContext(), type); }

Value Scalars::constant(double value) const {
  if (!isFloat(type)) return integer(static_cast<int64_t>(value));
  return arith::ConstantOp::create(b, loc, b.getFloatAttr(mlirType(), value));
}

Value Scalars::integer(int64_t value) const {
  const auto width = mlirType().getIntOrFloatBitWidth();
  const llvm::APInt bits(width, static_cast<uint64_t>(value), /*isSigned=*/true, /*implicitTrunc=*/true);
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(mlirType(), bits));
}

Value Scalars::lowest() const {
  if (isFloat(type)) return constant(-INFINITY);
  if (isUnsigned(type) || type == v1::DATA_TYPE_BOOL) return integer(0);
  return integer(INT64_MIN >> (64 - elementBits(type)));
}

Value Scalars::highest() const {
  if (isFloat(type)) return constant(INFINITY);
  if (type == v1::DATA_TYPE_BOOL) return integer(1);
  if (isUnsigned(type)) return integer(static_cast<int64_t>(UINT64_MAX >> (64 - elementBits(type))));
  return integer(INT64_MAX >> (64 - elementBits(type)));
}

Value Scalars::add(Value x, Value y) const {
  if (isFloat(type)) return arith::AddFOp::create(b, loc, x, y);
  return arith::AddIOp::create(b, loc, x, y);
}

Value Scalars::sub(Value x, Value y) const {
  if (isFloat(type)) return arith::SubFOp::create(b, loc, x, y);
  return arith::SubIOp::create(b, loc, x, y);
}

Value Scalars::mul(Value x, Value y) const {
  if (isFloat(type)) return arith::MulFOp::create(b, loc, x, y);
  return arith::MulIOp::create(b, loc, x, y);
}

Value Scalars::div(Value x, Value y) const {
  if (isFloat(type)) return arith::DivFOp::create(b, loc, x, y);
  // The processor traps on x / 0 and on INT_MIN / -1: divides by 1 instead and corrects the result.
  Value zero = integer(0);
  Value one = integer(1);
  Value by_zero = compare(Relation::kEqual, y, zero);
  if (isUnsigned(type)) {
    Value quotient = arith::DivUIOp::create(b, loc, x, select(by_zero, one, y));
    return select(by_zero, zero, quotient);
  }
  Value by_minus_one = compare(Relation::kEqual, y, integer(-1));
  Value unsafe = arith::OrIOp::create(b, loc, by_zero, by_minus_one);
  Value quotient = arith::DivSIOp::create(b, loc, x, select(unsafe, one, y));
  return select(by_zero, zero, select(by_minus_one, sub(zero, x), quotient));
}

Value Scalars::remainder(Value x, Value y) const {
  if (isFloat(type)) return narrowed(arith::RemFOp::create(b, loc, widened(x), widened(y)));
  Value zero = integer(0);
  Value by_zero = compare(Relation::kEqual, y, zero);
  if (isUnsigned(type)) {
    return select(by_zero, zero, arith::RemUIOp::create(b, loc, x, select(by_zero, integer(1), y)));
  }
  // x % -1 and x % 0 are both 0 here, the value of x % 1.
  Value unsafe = arith::OrIOp::create(b, loc, by_zero, compare(Relation::kEqual, y, integer(-1)));
  return arith::RemSIOp::create(b, loc, x, select(unsafe, integer(1), y));
}

Value Scalars::floorMod(Value x, Value y) const {
  Value rest = remainder(x, y);
  // The remainder has x's sign; floor division wants y's.
  if (isUnsigned(type)) return rest;
  Value zero = constant(0);
  Value wrong_sign = logicalXor(compare(Relation::kLess, rest, zero), compare(Relation::kLess, y, zero));
  Value adjust = logicalAnd(compare(Relation::kNotEqual, rest, zero), wrong_sign);
  return select(adjust, add(rest, y), rest);
}

Value Scalars::max(Value x, Value y) const {
  if (isFloat(type)) return arith::MaximumFOp::create(b, loc, x, y);
  if (isUnsigned(type) || type == v1::DATA_TYPE_BOOL) return arith::MaxUIOp::create(b, loc, x, y);
  return arith::MaxSIOp::create(b, loc, x, y);
}

Value Scalars::min(Value x, Value y) const {
  if (isFloat(type)) return arith::MinimumFOp::create(b, loc, x, y);
  if (isUnsigned(type) || type == v1::DATA_TYPE_BOOL) return arith::MinUIOp::create(b, loc, x, y);
  return arith::MinSIOp::create(b, loc, x, y);
}

Value Scalars::neg(Value x) const {
  if (isFloat(type)) return arith::NegFOp::create(b, loc, x);
  return sub(integer(0), x);
}

Value Scalars::abs(Value x) const {
  if (isFloat(type)) return mlir::math::AbsFOp::create(b, loc, x);
  if (isUnsigned(type)) return x;
  return select(compare(Relation::kLess, x, integer(0)), neg(x), x);
}

Value Scalars::compare(Relation relation, Value x, Value y) const {
  if (isFloat(type)) {
    using P = arith::CmpFPredicate;
    // NotEqual is unordered: a NaN differs from everything, also from itself.
    static constexpr P kFloat[] = {P::OEQ, P::UNE, P::OLT, P::OLE, P::OGT, P::OGE};
    return arith::CmpFOp::create(b, loc, kFloat[static_cast<int>(relation)], x, y);
  }
  using P = arith::CmpIPredicate;
  static constexpr P kSigned[] = {P::eq, P::ne, P::slt, P::sle, P::sgt, P::sge};
  static constexpr P kUnsigned[] = {P::eq, P::ne, P::ult, P::ule, P::ugt, P::uge};
  const bool plain = isUnsigned(type) || type == v1::DATA_TYPE_BOOL;
  return arith::CmpIOp::create(b, loc, (plain ? kUnsigned : kSigned)[static_cast<int>(relation)], x, y);
}

Value Scalars::select(Value condition, Value x, Value y) const {
  return arith::SelectOp::create(b, loc, condition, x, y);
}
Value Scalars::logicalAnd(Value x, Value y) const { return arith::AndIOp::create(b, loc, x, y); }
Value Scalars::logicalOr(Value x, Value y) const { return arith::OrIOp::create(b, loc, x, y); }
Value Scalars::logicalXor(Value x, Value y) const { return arith::XOrIOp::create(b, loc, x, y); }
Value Scalars::logicalNot(Value x) const { return logicalXor(x, as(v1::DATA_TYPE_BOOL).integer(1)); }

Value Scalars::widened(Value x) const {
  if (elementBytes(type) != 2) return x;
  return arith::ExtFOp::create(b, loc, b.getF32Type(), x);
}

Value Scalars::narrowed(Value x) const {
  if (x.getType() == mlirType()) return x;
  return arith::TruncFOp::create(b, loc, mlirType(), x);
}

Value Scalars::floatToInteger(Value x, v1::DataType to) const {
  // The instruction's result is undefined out of range, so its operand is clamped first. Both bounds are powers of two,
  // hence exact in every floating-point type.
  const int bits = static_cast<int>(elementBits(to)) - (isUnsigned(to) ? 0 : 1);
  const Scalars target = as(to);
  const Scalars wide = elementBytes(type) == 2 ? as(v1::DATA_TYPE_F32) : *this;
  // 16-bit types compute in f32: bounds of wide integers exceed f16.
  x = widened(x);
  Value below = wide.compare(Relation::kLessOrEqual, x, wide.constant(isUnsigned(to) ? -1.0 : -std::ldexp(1.0, bits)));
  Value above = wide.compare(Relation::kGreaterOrEqual, x, wide.constant(std::ldexp(1.0, bits)));
  Value nan = wide.compare(Relation::kNotEqual, x, x);
  Value unsafe = logicalOr(nan, logicalOr(below, above));
  Value safe = wide.select(unsafe, wide.constant(0), x);
  Value converted = isUnsigned(to) ? Value(arith::FPToUIOp::create(b, loc, target.mlirType(), safe))
                                   : Value(arith::FPToSIOp::create(b, loc, target.mlirType(), safe));
  return select(below, target.lowest(), select(above, target.highest(), converted));
}

Value Scalars::lowBits(Value x, v1::DataType to) const {
  // Shifts the low bits up and back, which repeats the sign or zeros.
  const Scalars byte = as(storageType(to));
  Value unused = byte.integer(8 - elementBits(to));
  Value raised = arith::ShLIOp::create(b, loc, x, unused);
  if (byte.type == v1::DATA_TYPE_U8) return arith::ShRUIOp::create(b, loc, raised, unused);
  return arith::ShRSIOp::create(b, loc, raised, unused);
}

Value Scalars::cast(Value x, v1::DataType to) const {
  if (to == type) return x;
  if (isNarrowFloat(type)) return as(v1::DATA_TYPE_F32).cast(decodeNarrow(*this, x), to);
  if (isNarrowFloat(to)) return encodeNarrow(as(v1::DATA_TYPE_F32), cast(x, v1::DATA_TYPE_F32), to, {});
  if (isNarrow(type)) return as(storageType(type)).cast(x, to);
  if (isNarrow(to) && !isFloat(type)) return lowBits(cast(x, storageType(to)), to);
  const Scalars target = as(to);
  if (to == v1::DATA_TYPE_BOOL) return compare(Relation::kNotEqual, x, constant(0));
  if (isFloat(type) && isFloat(to)) {
    // Neither 16-bit type contains the other, so the conversion goes through f32.
    if (elementBytes(type) == elementBytes(to)) return target.narrowed(widened(x));  // f16 <-> bf16
    if (elementBytes(type) < elementBytes(to)) return arith::ExtFOp::create(b, loc, target.mlirType(), x);
    return arith::TruncFOp::create(b, loc, target.mlirType(), x);
  }
  if (isFloat(type)) return floatToInteger(x, to);
  const bool plain = isUnsigned(type) || type == v1::DATA_TYPE_BOOL;
  if (isFloat(to)) {
    if (plain) return arith::UIToFPOp::create(b, loc, target.mlirType(), x);
    return arith::SIToFPOp::create(b, loc, target.mlirType(), x);
  }
  const unsigned from_width = mlirType().getIntOrFloatBitWidth();
  const unsigned to_width = target.mlirType().getIntOrFloatBitWidth();
  if (from_width == to_width) return x;
  if (from_width > to_width) return arith::TruncIOp::create(b, loc, target.mlirType(), x);
  if (plain) return arith::ExtUIOp::create(b, loc, target.mlirType(), x);
  return arith::ExtSIOp::create(b, loc, target.mlirType(), x);
}

}  // namespace tessera::compiler
