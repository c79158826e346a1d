// Rules for conversions within the body of one operation.
#include "compiler/graph/analysis/counted_pattern.h"
#include "compiler/graph/rewrites/cast_rules.h"
#include "llvm/ADT/APFloat.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
using llvm::APFloat;
using mlir::FloatType;
using mlir::PatternRewriter;
using mlir::Type;
using mlir::Value;

/// Converts between floating-point types if one represents all values of the other; otherwise null.
Value convertFloat(PatternRewriter& r, Value value, Type to) {
  if (value.getType() == to) return value;
  if (holds(to, value.getType())) return arith::ExtFOp::create(r, value.getLoc(), to, value);
  if (holds(value.getType(), to)) return arith::TruncFOp::create(r, value.getLoc(), to, value);
  return {};
}

/// trunc(ext x): the widening is exact, so one conversion, or none, replaces both.
Value truncOfExt(arith::TruncFOp op, PatternRewriter& r) {
  auto ext = op.getIn().getDefiningOp<arith::ExtFOp>();
  return ext ? convertFloat(r, ext.getIn(), op.getType()) : Value();
}

Value extOfExt(arith::ExtFOp op, PatternRewriter& r) {
  auto ext = op.getIn().getDefiningOp<arith::ExtFOp>();
  return ext ? convertFloat(r, ext.getIn(), op.getType()) : Value();
}

Value truncOfIntegerExt(arith::TruncIOp op, PatternRewriter& r) {
  mlir::Operation* ext = op.getIn().getDefiningOp();
  if (!ext || !mlir::isa<arith::ExtSIOp, arith::ExtUIOp>(ext) || !op.getType().isInteger()) return {};
  Value x = ext->getOperand(0);
  const unsigned from = x.getType().getIntOrFloatBitWidth(), to = op.getType().getIntOrFloatBitWidth();
  if (from == to) return x;
  if (from > to) return arith::TruncIOp::create(r, op.getLoc(), op.getType(), x);
  if (mlir::isa<arith::ExtSIOp>(ext)) return arith::ExtSIOp::create(r, op.getLoc(), op.getType(), x);
  return arith::ExtUIOp::create(r, op.getLoc(), op.getType(), x);
}

/// Returns the integer that `value` converts exactly, and whether it is unsigned.
std::pair<Value, bool> exactInteger(Value value) {
  auto type = mlir::dyn_cast<FloatType>(value.getType());
  mlir::Operation* op = value.getDefiningOp();
  if (!type || !op || !mlir::isa<arith::SIToFPOp, arith::UIToFPOp>(op)) return {};
  const bool is_unsigned = mlir::isa<arith::UIToFPOp>(op);
  const unsigned bits = op->getOperand(0).getType().getIntOrFloatBitWidth();
  // A signed integer of n bits has n - 1 bits of magnitude or is a power of two; f16 overflows earlier.
  const unsigned magnitude = is_unsigned ? bits : bits - 1;
  if (magnitude > type.getFPMantissaWidth() || (type.isF16() && magnitude > 15)) return {};
  return {op->getOperand(0), is_unsigned};
}

/// Integer -> float -> integer. If the result type cannot represent the value, the instruction is undefined; the
/// importer guards it, so any result is allowed here.
template <typename Op>
Value integerRoundTrip(Op op, PatternRewriter& r) {
  auto [x, is_unsigned] = exactInteger(op.getIn());
  if (!x) return {};
  const unsigned from = x.getType().getIntOrFloatBitWidth(), to = op.getType().getIntOrFloatBitWidth();
  if (from == to) return x;
  if (from > to) return arith::TruncIOp::create(r, op.getLoc(), op.getType(), x);
  if (is_unsigned) return arith::ExtUIOp::create(r, op.getLoc(), op.getType(), x);
  return arith::ExtSIOp::create(r, op.getLoc(), op.getType(), x);
}

/// A converted integer is never NaN.
Value nanOfInteger(arith::CmpFOp op, PatternRewriter& r) {
  using P = arith::CmpFPredicate;
  if (op.getLhs() != op.getRhs() || (op.getPredicate() != P::UNE && op.getPredicate() != P::UNO)) return {};
  mlir::Operation* producer = op.getLhs().getDefiningOp();
  if (!op.getType().isInteger(1)) return {};
  if (!producer || !mlir::isa<arith::SIToFPOp, arith::UIToFPOp>(producer)) return {};
  return arith::ConstantOp::create(r, op.getLoc(), r.getBoolAttr(false));
}

/// Returns `value` in the narrower `type`: the operand of its widening, or a constant that `type` represents; otherwise
/// null.
Value narrowSource(PatternRewriter& r, Value value, Type type) {
  if (auto ext = value.getDefiningOp<arith::ExtFOp>()) return ext.getIn().getType() == type ? ext.getIn() : Value();
  APFloat number(0.0);
  if (!mlir::matchPattern(value, mlir::m_ConstantFloat(&number))) return {};
  bool lossy = false;
  number.convert(mlir::cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  if (lossy || number.isNaN()) return {};
  return arith::ConstantOp::create(r, value.getLoc(), r.getFloatAttr(type, number));
}

bool isWidened(Value value, Type type) {
  auto ext = value.getDefiningOp<arith::ExtFOp>();
  return ext && (!type || ext.getIn().getType() == type);
}

/// trunc(op(ext a, ext b)) -> op(a, b) for operations that return one of their operands up to its sign.
Value narrowExactOperation(arith::TruncFOp op, PatternRewriter& r) {
  mlir::Operation* inner = op.getIn().getDefiningOp();
  if (!inner || !inner->hasOneUse() || !mlir::isa<FloatType>(op.getType())) return {};
  if (!mlir::isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp, math::AbsFOp,
                 arith::SelectOp>(inner)) {
    return {};
  }
  llvm::SmallVector<Value> operands(inner->getOperands());
  const bool is_select = mlir::isa<arith::SelectOp>(inner);
  bool any = false;
  for (Value& operand : llvm::drop_begin(operands, is_select ? 1 : 0)) {
    any |= isWidened(operand, op.getType());
    operand = narrowSource(r, operand, op.getType());
    if (!operand) return {};
  }
  if (!any) return {};
  mlir::OperationState state(op.getLoc(), inner->getName().getStringRef(), operands, op->getResultTypes());
  return r.create(state)->getResult(0);
}

Value narrowComparison(arith::CmpFOp op, PatternRewriter& r) {
  auto ext = op.getLhs().getDefiningOp<arith::ExtFOp>();
  if (!ext) ext = op.getRhs().getDefiningOp<arith::ExtFOp>();
  if (!ext || !mlir::isa<FloatType>(ext.getIn().getType())) return {};
  const Type type = ext.getIn().getType();
  Value a = narrowSource(r, op.getLhs(), type);
  Value b = narrowSource(r, op.getRhs(), type);
  return a && b ? Value(arith::CmpFOp::create(r, op.getLoc(), op.getPredicate(), a, b)) : Value();
}

}  // namespace

bool holds(Type wide, Type narrow) {
  if (wide == narrow) return true;
  if (wide.isF64()) return narrow.isF32() || narrow.isF16() || narrow.isBF16();
  return wide.isF32() && (narrow.isF16() || narrow.isBF16());
}

void addCastRules(mlir::RewritePatternSet& patterns, int& count) {
  addCounted<arith::TruncFOp>(patterns, count, {truncOfExt, narrowExactOperation});
  addCounted<arith::ExtFOp>(patterns, count, {extOfExt});
  addCounted<arith::TruncIOp>(patterns, count, {truncOfIntegerExt});
  addCounted<arith::FPToSIOp>(patterns, count, {integerRoundTrip<arith::FPToSIOp>});
  addCounted<arith::FPToUIOp>(patterns, count, {integerRoundTrip<arith::FPToUIOp>});
  addCounted<arith::CmpFOp>(patterns, count, {nanOfInteger, narrowComparison});
  // Folds comparisons that an integer's range decides, then the selects that use them.
  arith::CmpFOp::getCanonicalizationPatterns(patterns, patterns.getContext());
  arith::SelectOp::getCanonicalizationPatterns(patterns, patterns.getContext());
}

}  // namespace tessera::compiler
