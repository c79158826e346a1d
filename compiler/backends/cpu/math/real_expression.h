#pragma once

#include <initializer_list>
#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"

/// Formulas over f32 or f64 scalars or vectors, written with C++ operators; every operator emits an operation.
namespace tessera::compiler::codegen {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Reals {
  mlir::PatternRewriter& rewriter;
  mlir::Location loc;
  mlir::Type type;  ///< f32, f64 or a vector of one of them

  mlir::Type real() const { return mlir::getElementTypeOrSelf(type); }
  mlir::IntegerType integer() const { return rewriter.getIntegerType(real().getIntOrFloatBitWidth()); }

  mlir::Type withElement(mlir::Type element) const {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type)) return vector.clone(element);
    return element;
  }
  mlir::Value splat(mlir::TypedAttr value) const {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
      return mlir::arith::ConstantOp::create(
          rewriter, loc, mlir::DenseElementsAttr::get(vector.clone(value.getType()), mlir::Attribute(value)));
    return mlir::arith::ConstantOp::create(rewriter, loc, value);
  }
  template <typename Op>
  mlir::Value make(mlir::Value a, mlir::Value b) const {
    return Op::create(rewriter, loc, a, b);
  }
};

/// Integers of the same width and shape as the reals.
struct Bits {
  const Reals* in = nullptr;
  mlir::Value value;
  Bits constant(int64_t c) const { return {in, in->splat(in->rewriter.getIntegerAttr(in->integer(), c))}; }
  Bits operator+(Bits b) const { return {in, in->make<mlir::arith::AddIOp>(value, b.value)}; }
  Bits operator-(Bits b) const { return {in, in->make<mlir::arith::SubIOp>(value, b.value)}; }
  Bits operator+(int64_t c) const { return *this + constant(c); }
  Bits operator&(int64_t c) const { return {in, in->make<mlir::arith::AndIOp>(value, constant(c).value)}; }
  Bits operator|(int64_t c) const { return {in, in->make<mlir::arith::OrIOp>(value, constant(c).value)}; }
  Bits operator<<(int64_t c) const { return {in, in->make<mlir::arith::ShLIOp>(value, constant(c).value)}; }
  Bits operator>>(int64_t c) const { return {in, in->make<mlir::arith::ShRUIOp>(value, constant(c).value)}; }
  mlir::Value isZero() const {
    return mlir::arith::CmpIOp::create(in->rewriter, in->loc, mlir::arith::CmpIPredicate::eq, value, constant(0).value);
  }
};

struct Real {
  const Reals* in = nullptr;
  mlir::Value value;

  Real constant(double c) const { return {in, in->splat(in->rewriter.getFloatAttr(in->real(), c))}; }
  Real operator+(Real b) const { return {in, in->make<mlir::arith::AddFOp>(value, b.value)}; }
  Real operator-(Real b) const { return {in, in->make<mlir::arith::SubFOp>(value, b.value)}; }
  Real operator*(Real b) const { return {in, in->make<mlir::arith::MulFOp>(value, b.value)}; }
  Real operator/(Real b) const { return {in, in->make<mlir::arith::DivFOp>(value, b.value)}; }
  Real operator+(double c) const { return *this + constant(c); }
  Real operator-(double c) const { return *this - constant(c); }
  Real operator*(double c) const { return *this * constant(c); }
  Real operator-() const { return {in, mlir::arith::NegFOp::create(in->rewriter, in->loc, value)}; }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, Real b) const {
    return mlir::arith::CmpFOp::create(in->rewriter, in->loc, predicate, value, b.value);
  }
  mlir::Value operator<(double c) const { return compare(mlir::arith::CmpFPredicate::OLT, constant(c)); }
  mlir::Value operator>=(double c) const { return compare(mlir::arith::CmpFPredicate::OGE, constant(c)); }
  mlir::Value operator==(double c) const { return compare(mlir::arith::CmpFPredicate::OEQ, constant(c)); }
  mlir::Value isNan() const { return compare(mlir::arith::CmpFPredicate::UNO, *this); }
  template <typename Op>
  Real apply() const {
    return {in, Op::create(in->rewriter, in->loc, value)};
  }
  Real abs() const { return apply<mlir::math::AbsFOp>(); }
  Real sqrt() const { return apply<mlir::math::SqrtOp>(); }
  Real rounded() const { return apply<mlir::math::RoundEvenOp>(); }
  Real withSignOf(Real b) const { return {in, mlir::math::CopySignOp::create(in->rewriter, in->loc, value, b.value)}; }
  Bits bits() const {
    return {in, mlir::arith::BitcastOp::create(in->rewriter, in->loc, in->withElement(in->integer()), value)};
  }
  /// coefficients[0] + x (coefficients[1] + x (...))
  Real polynomial(std::initializer_list<double> coefficients) const {
    const double* last = coefficients.end() - 1;
    Real sum = constant(*last);
    while (last != coefficients.begin()) sum = sum * *this + *--last;
    return sum;
  }
};

inline Real operator+(double c, Real x) { return x + c; }
inline Real operator*(double c, Real x) { return x * c; }
inline Real operator-(double c, Real x) { return x.constant(c) - x; }
inline Real operator/(double c, Real x) { return x.constant(c) / x; }

inline Real realOf(Bits bits) {
  return {bits.in, mlir::arith::BitcastOp::create(bits.in->rewriter, bits.in->loc, bits.in->type, bits.value)};
}
inline Real choose(mlir::Value condition, Real a, Real b) {
  return {a.in, mlir::arith::SelectOp::create(a.in->rewriter, a.in->loc, condition, a.value, b.value)};
}
inline Bits choose(mlir::Value condition, Bits a, Bits b) {
  return {a.in, mlir::arith::SelectOp::create(a.in->rewriter, a.in->loc, condition, a.value, b.value)};
}

}  // namespace tessera::compiler::codegen
