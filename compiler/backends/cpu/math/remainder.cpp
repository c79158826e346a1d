#include "compiler/backends/cpu/math/remainder.h"

#include <limits>

#include "compiler/backends/cpu/math/lanes.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
namespace scf = mlir::scf;

/// x - q y with one rounding.
Real lessProduct(Real x, Real q, Real y) {
  return {x.in, math::FmaOp::create(x.in->rewriter, x.in->loc, (-q).value, y.value, x.value)};
}

/// x reduced by multiples of y until it is less than 2^52 y. Each round subtracts the product of the first 26 bits of
/// the quotient with y; the product's last bit is above that of the difference, which is therefore exact. For quotients
/// near or beyond the exponent range of f64, y is scaled by 2^600 or 2^1100.
Real nearer(Real x, Real y, bool doubles) {
  const Reals& in = *x.in;
  mlir::PatternRewriter& b = in.rewriter;
  // Where there is no remainder (x infinite, y zero), the loop must not run: the divisor becomes NaN.
  const mlir::Value none = choose(y == 0, x.constant(kInf), x.abs()) == kInf;
  const Real divisor = choose(none, y.constant(std::numeric_limits<double>::quiet_NaN()), y.abs());
  auto goesOn = [&](Real rest) { return (rest.abs() * 0x1p-52).compare(arith::CmpFPredicate::OGE, divisor); };
  auto loop = scf::WhileOp::create(
      b, in.loc, in.type, x.value,
      [&](mlir::OpBuilder&, mlir::Location, mlir::ValueRange carried) {
        scf::ConditionOp::create(b, in.loc, anyLane(b, in.loc, goesOn(Real{&in, carried[0]})), carried);
      },
      [&](mlir::OpBuilder&, mlir::Location, mlir::ValueRange carried) {
        const Real rest{&in, carried[0]};
        Real by = y;
        if (doubles) by = choose((rest / y).abs() >= 0x1p900, choose(y.abs() < 0x1p-500, y * 0x1p500, y) * 0x1p600, y);
        const Real q = realOf((rest / by).bits() & ~int64_t{0x7ffffff});
        scf::YieldOp::create(b, in.loc, choose(goesOn(rest), lessProduct(rest, q, by), rest).value);
      });
  return {&in, loop.getResult(0)};
}

struct Remainder : mlir::OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(arith::RemFOp op, mlir::PatternRewriter& rewriter) const override {
    const mlir::Location loc = op.getLoc();
    const mlir::Type type = op.getType();
    const Reals own{rewriter, loc, type}, wide{rewriter, loc, own.withElement(rewriter.getF64Type())};
    auto widened = [&](mlir::Value value) {
      return Real{&wide,
                  type == wide.type ? value : arith::ExtFOp::create(rewriter, loc, wide.type, value).getResult()};
    };
    const Real x = widened(op.getLhs()), y = widened(op.getRhs());
    const Real near = nearer(x, y, type == wide.type);
    const Real rest = lessProduct(near, (near / y).apply<math::TruncOp>(), y);
    // The sign of the remainder is that of x.
    const mlir::Value wrong = rest.withSignOf(x).compare(arith::CmpFPredicate::ONE, rest);
    Real found = choose(wrong, rest + y.withSignOf(x), rest);
    const mlir::Value all =
        choose(y.abs() == kInf, x.abs(), x.constant(kInf)).compare(arith::CmpFPredicate::OLT, x.constant(kInf));
    found = choose(all, x, found);
    // The sign is applied after the rounding. LLVM would move a rounding before the sign, and then round the sign's
    // operand from f64 to f16, for which chips have no instruction.
    mlir::Value result = found.value;
    if (type != wide.type) result = arith::TruncFOp::create(rewriter, loc, type, result);
    rewriter.replaceOpWithNewOp<math::CopySignOp>(op, result, op.getLhs());
    return mlir::success();
  }
};

}  // namespace

void populateRemainderPatterns(mlir::RewritePatternSet& patterns) { patterns.add<Remainder>(patterns.getContext()); }

}  // namespace tessera::compiler::codegen
