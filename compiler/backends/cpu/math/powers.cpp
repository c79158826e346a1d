#include "compiler/backends/cpu/math/powers.h"

#include "compiler/backends/cpu/math/real_expression.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;

mlir::Value isWhole(Real y) { return y.compare(arith::CmpFPredicate::OEQ, y.apply<math::FloorOp>()); }

/// In f64, like C's pow: a negative x (also -0 and -inf) has powers for integer y only; an odd y makes them negative.
Real power(Real x, Real y) {
  const Real a = x.abs(), one = x.constant(1);
  const Real magnitude = choose(a == 1, one, (y * a.apply<math::LogOp>()).apply<math::ExpOp>());
  const Real odd = choose(isWhole(y * 0.5), magnitude, -magnitude);
  const Real between = choose(a == 0, magnitude, choose(a == kInf, magnitude, x.constant(kNan)));
  const Real below = choose(isWhole(y), odd, between);
  return choose(y == 0, one, choose((x.bits() >> 63).isZero(), magnitude, below));
}

struct Power : mlir::OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(math::PowFOp op, mlir::PatternRewriter& rewriter) const override {
    const mlir::Type type = op.getType(), element = mlir::getElementTypeOrSelf(type);
    if (!element.isF32() && !element.isF64()) return mlir::failure();
    const mlir::Location loc = op.getLoc();
    const Reals own{rewriter, loc, type};
    llvm::APFloat exponent(0.0);
    if (mlir::matchPattern(op.getRhs(), mlir::m_ConstantFloat(&exponent))) {
      const Real root = Real{&own, op.getLhs()};
      const double known = exponent.convertToDouble();
      if (known == 0.5) return replace(op, root.sqrt(), rewriter);
      if (known == 0.25) return replace(op, root.sqrt().sqrt(), rewriter);
      if (known == 0.75) return replace(op, root.sqrt() * root.sqrt().sqrt(), rewriter);
    }
    const Reals wide{rewriter, loc, own.withElement(rewriter.getF64Type())};
    auto widened = [&](mlir::Value value) {
      return Real{&wide, element.isF64() ? value : arith::ExtFOp::create(rewriter, loc, wide.type, value).getResult()};
    };
    const Real found = power(widened(op.getLhs()), widened(op.getRhs()));
    if (element.isF64()) return replace(op, found, rewriter);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, type, found.value);
    return mlir::success();
  }

 private:
  static mlir::LogicalResult replace(math::PowFOp op, Real by, mlir::PatternRewriter& rewriter) {
    rewriter.replaceOp(op, by.value);
    return mlir::success();
  }
};

}  // namespace

void populatePowerPatterns(mlir::RewritePatternSet& patterns) { patterns.add<Power>(patterns.getContext()); }

}  // namespace tessera::compiler::codegen
