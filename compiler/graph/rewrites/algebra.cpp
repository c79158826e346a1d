#include "compiler/graph/rewrites/algebra.h"

#include "compiler/graph/analysis/counted_pattern.h"
#include "llvm/ADT/APFloat.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
using llvm::APFloat;
using mlir::PatternRewriter;
using mlir::Value;

std::optional<APFloat> constantOf(Value value) {
  APFloat number(0.0);
  if (!mlir::isa<mlir::FloatType>(value.getType())) return std::nullopt;  // bodies hold scalars
  if (!mlir::matchPattern(value, mlir::m_ConstantFloat(&number))) return std::nullopt;
  return number;
}

bool isConstant(Value value, double number) {
  std::optional<APFloat> found = constantOf(value);
  return found && found->isExactlyValue(number);
}

Value makeConstant(PatternRewriter& r, Value like, const APFloat& number) {
  return arith::ConstantOp::create(r, like.getLoc(), r.getFloatAttr(like.getType(), number));
}

/// Returns the operand of a negation, or null.
Value negated(Value value) {
  auto negation = value.getDefiningOp<arith::NegFOp>();
  return negation ? negation.getOperand() : Value();
}

/// For a commutative operation with one constant operand: returns the other operand and the constant.
template <typename Op>
std::optional<std::pair<Value, APFloat>> withConstant(Op op) {
  if (auto number = constantOf(op.getRhs())) return std::pair(op.getLhs(), *number);
  if (auto number = constantOf(op.getLhs())) return std::pair(op.getRhs(), *number);
  return std::nullopt;
}

Value mulByUnit(arith::MulFOp op, PatternRewriter& r) {
  auto pair = withConstant(op);
  if (pair && pair->second.isExactlyValue(1.0)) return pair->first;
  if (pair && pair->second.isExactlyValue(-1.0)) return arith::NegFOp::create(r, op.getLoc(), pair->first);
  return {};
}

Value mulSigns(arith::MulFOp op, PatternRewriter& r) {
  Value a = negated(op.getLhs());
  Value b = negated(op.getRhs());
  if (a && b) return arith::MulFOp::create(r, op.getLoc(), a, b);
  auto pair = withConstant(op);
  Value x = pair ? negated(pair->first) : Value();
  if (!x) return {};
  pair->second.changeSign();
  return arith::MulFOp::create(r, op.getLoc(), x, makeConstant(r, x, pair->second));
}

/// (x * c1) * c2 -> x * (c1 c2)
Value mulChain(arith::MulFOp op, PatternRewriter& r) {
  auto outer = withConstant(op);
  auto before = outer ? outer->first.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  auto inner = before ? withConstant(before) : std::nullopt;
  if (!inner || constantOf(inner->first) || !before->hasOneUse()) return {};
  APFloat product = inner->second;
  product.multiply(outer->second, APFloat::rmNearestTiesToEven);
  if (!product.isNormal() || !inner->second.isNormal() || !outer->second.isNormal()) return {};
  return arith::MulFOp::create(r, op.getLoc(), inner->first, makeConstant(r, inner->first, product));
}

Value addZero(arith::AddFOp op, PatternRewriter&) {
  auto pair = withConstant(op);
  return pair && pair->second.isZero() ? pair->first : Value();
}

Value addNegated(arith::AddFOp op, PatternRewriter& r) {
  if (Value b = negated(op.getRhs())) return arith::SubFOp::create(r, op.getLoc(), op.getLhs(), b);
  if (Value a = negated(op.getLhs())) return arith::SubFOp::create(r, op.getLoc(), op.getRhs(), a);
  return {};
}

Value subZero(arith::SubFOp op, PatternRewriter& r) {
  if (isConstant(op.getRhs(), 0.0) || isConstant(op.getRhs(), -0.0)) return op.getLhs();
  if (isConstant(op.getLhs(), 0.0) || isConstant(op.getLhs(), -0.0)) {
    return arith::NegFOp::create(r, op.getLoc(), op.getRhs());
  }
  return {};
}

Value subNegated(arith::SubFOp op, PatternRewriter& r) {
  Value b = negated(op.getRhs());
  return b ? Value(arith::AddFOp::create(r, op.getLoc(), op.getLhs(), b)) : Value();
}

/// x / c -> x * (1 / c) if 1 / c is exact: powers of two.
Value divByPowerOfTwo(arith::DivFOp op, PatternRewriter& r) {
  auto divisor = constantOf(op.getRhs());
  if (!divisor) return {};
  if (divisor->isExactlyValue(1.0)) return op.getLhs();
  APFloat inverse(divisor->getSemantics());
  if (!divisor->getExactInverse(&inverse)) return {};
  return arith::MulFOp::create(r, op.getLoc(), op.getLhs(), makeConstant(r, op.getLhs(), inverse));
}

Value divSigns(arith::DivFOp op, PatternRewriter& r) {
  Value a = negated(op.getLhs());
  Value b = negated(op.getRhs());
  return a && b ? Value(arith::DivFOp::create(r, op.getLoc(), a, b)) : Value();
}

Value doubleNegation(arith::NegFOp op, PatternRewriter&) { return negated(op.getOperand()); }

Value absOfSign(math::AbsFOp op, PatternRewriter& r) {
  if (op.getOperand().getDefiningOp<math::AbsFOp>()) return op.getOperand();
  Value x = negated(op.getOperand());
  return x ? Value(math::AbsFOp::create(r, op.getLoc(), x)) : Value();
}

Value smallPower(math::PowFOp op, PatternRewriter& r) {
  auto exponent = constantOf(op.getRhs());
  Value x = op.getLhs();
  if (!exponent) return {};
  auto is = [&](double number) { return exponent->isExactlyValue(number); };
  auto mul = [&](Value a, Value b) -> Value { return arith::MulFOp::create(r, op.getLoc(), a, b); };
  auto one = [&] { return makeConstant(r, x, APFloat::getOne(exponent->getSemantics())); };
  if (exponent->isZero()) return one();
  if (is(1.0)) return x;
  if (is(-1.0)) return arith::DivFOp::create(r, op.getLoc(), one(), x);
  if (!is(2.0) && !is(3.0) && !is(4.0) && !is(-2.0)) return {};
  Value square = mul(x, x);
  if (is(2.0)) return square;
  if (is(3.0)) return mul(square, x);
  if (is(4.0)) return mul(square, square);
  return arith::DivFOp::create(r, op.getLoc(), one(), square);
}

/// max(max(x, c1), c2) -> max(x, max(c1, c2)), and min likewise.
template <typename Op>
Value boundChain(Op op, PatternRewriter& r) {
  auto outer = withConstant(op);
  auto before = outer ? outer->first.template getDefiningOp<Op>() : Op();
  auto inner = before ? withConstant(before) : std::nullopt;
  if (!inner || constantOf(inner->first) || inner->second.isNaN() || outer->second.isNaN()) return {};
  constexpr bool kMax = std::is_same_v<Op, arith::MaximumFOp>;
  const APFloat bound =
      kMax ? llvm::maximum(inner->second, outer->second) : llvm::minimum(inner->second, outer->second);
  return Op::create(r, op.getLoc(), inner->first, makeConstant(r, inner->first, bound));
}

}  // namespace

int simplifyAlgebra(mlir::func::FuncOp main) {
  int count = 0;
  mlir::RewritePatternSet patterns(main.getContext());
  addCounted<arith::MulFOp>(patterns, count, {mulByUnit, mulSigns, mulChain});
  addCounted<arith::AddFOp>(patterns, count, {addZero, addNegated});
  addCounted<arith::SubFOp>(patterns, count, {subZero, subNegated});
  addCounted<arith::DivFOp>(patterns, count, {divByPowerOfTwo, divSigns});
  addCounted<arith::NegFOp>(patterns, count, {doubleNegation});
  addCounted<math::AbsFOp>(patterns, count, {absOfSign});
  addCounted<math::PowFOp>(patterns, count, {smallPower});
  addCounted<arith::MaximumFOp>(patterns, count, {boundChain<arith::MaximumFOp>});
  addCounted<arith::MinimumFOp>(patterns, count, {boundChain<arith::MinimumFOp>});
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return count;
}

}  // namespace tessera::compiler
