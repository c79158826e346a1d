#include "compiler/backends/cpu/math/math_single.h"

#include "compiler/backends/cpu/math/formula_pattern.h"
#include "compiler/backends/cpu/math/hyperbolic.h"
#include "compiler/backends/cpu/math/lanes.h"
#include "compiler/backends/cpu/math/trig_range_reduction.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tessera::compiler::codegen {
namespace {

namespace math = mlir::math;

/// ln 2 in two parts; the first has nine bits, so that its products with integers are exact.
constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;
constexpr double kLog2e = 1.44269504088896340736;
/// Adding this to an integer below 2^22 leaves the integer in the low bits.
constexpr double kShift = 12582912.0;  // 1.5 * 2^23
constexpr int64_t kShiftBits = 0x4b400000;
constexpr double kSmallestNormal = 0x1p-126;

/// x = n ln 2 + r, |r| <= ln 2 / 2 up to rounding; n is in the low bits of `shifted` = n + kShift + `above`. Adding
/// kShift rounds to an integer, which saves two instructions compared with a rounding instruction.
struct Reduced {
  Real shifted;
  Real r;
};

Reduced reduced(Real x, double above = 0) {
  const Real shifted = x * kLog2e + (kShift + above);
  const Real n = shifted - (kShift + above);
  return {shifted, x - n * kLn2High - n * kLn2Low};
}

/// e^r - 1 for |r| <= ln 2 / 2, with a relative error of 2^-26.
Real seriesOfExpm1(Real r) {
  return r +
         r * r * r.polynomial({4.999999702e-01, 1.666654199e-01, 4.166720435e-02, 8.366691880e-03, 1.388248871e-03});
}

/// e^x where both x and the result are normal numbers: the exponent is added to the bits.
Real expWithin(Real x) {
  const Reduced reduction = reduced(x);
  return realOf((1.0 + seriesOfExpm1(reduction.r)).bits() + (reduction.shifted.bits() << 23));
}

constexpr double kLowest = -87.336541;  // below this, e^x is not a normal number

/// e^x for x <= 0 or NaN: overflow is impossible, and a NaN survives the product with the power of two.
Real expAtMostOne(Real x) {
  const Reduced reduction = reduced(x, 127);
  const Real power = realOf(reduction.shifted.bits() << 23);
  const Real series = reduction.r.polynomial(
      {1, 1, 4.999999702e-01, 1.666654199e-01, 4.166720435e-02, 8.366691880e-03, 1.388248871e-03});
  return choose(x < kLowest, x.constant(0), series * power);
}

/// A masked score of an attention is far below; a product that underflows would cost a hundred cycles there.
Real exp(Real x) {
  const Real result = choose(x < kLowest, x.constant(0), expWithin(x));
  return choose(x.compare(mlir::arith::CmpFPredicate::OLE, x.constant(88.72283)), result, x + kInf);  // or NaN
}

Real expm1(Real x) {
  const Reduced reduction = reduced(x, 127);
  const Real power = realOf(reduction.shifted.bits() << 23);
  const Real near = power * seriesOfExpm1(reduction.r) + (power - 1);
  return choose(x.abs() < 40, near, exp(x) - 1).withSignOf(x);
}

/// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): log x = e ln 2 + f - f^2 / 2 + f^3 p(f), p to 2^-27.
Real log(Real x) {
  const mlir::Value small = x < kSmallestNormal;
  const Real y = choose(small, x * 0x1p23, x);
  // Subtracting the bits of sqrt(1/2) aligns the exponent with that interval.
  const Bits aligned = y.bits() + (0x3f800000 - 0x3f3504f3);
  const Real e =
      realOf(((aligned >> 23) + -127) + kShiftBits) - choose(small, x.constant(kShift + 23), x.constant(kShift));
  const Real f = realOf((aligned & 0x7fffff) + 0x3f3504f3) - 1;
  const Real z = f * f;
  const Real p = f.polynomial({3.333333135e-01, -2.500081956e-01, 2.000122666e-01, -1.662335694e-01, 1.420175731e-01,
                               -1.316018254e-01, 1.276157796e-01, -7.634497434e-02});
  Real result = f + ((f * z * p + e * kLn2Low) - z * 0.5) + e * kLn2High;
  result = choose(x == kInf, x, result);
  result = choose(x < 0, x.constant(kNan), result);
  result = choose(x == 0, x.constant(-kInf), result);
  return choose(x.isNan(), x, result);
}

/// log(u) plus a correction for the rounding of u = 1 + x.
Real log1p(Real x) {
  const Real u = x + 1;
  const Real corrected = log(u) + (x - (u - 1)) / u;
  return choose(x.abs() < 1e-8, x, choose(u == kInf, x, choose(u == 0, x.constant(-kInf), corrected)));
}

/// An odd polynomial below 0.625, 1 - 2 / (e^(2x) + 1) above; the result is 1 from 9.5.
Real tanh(Real x) {
  const Real a = x.abs(), z = a * a;
  const Real near =
      a +
      a * z * z.polynomial({-3.333326876e-01, 1.333109289e-01, -5.370965600e-02, 2.053881995e-02, -5.591016728e-03});
  const Real bounded = choose(a < 9.5, a, x.constant(9.5));
  const Real far = 1.0 - 2.0 / (expWithin(bounded * 2.0) + 1);
  return choose(x.isNan(), x, choose(a < 0.625, near, far).withSignOf(x));
}

/// An odd polynomial below 1, above it 1 - e^(-q(x)) with q = -log erfc to 2^-29 of the result; the result is 1 from 4.
Real erf(Real x) {
  const Real a = x.abs(), z = a * a;
  const Real near = a + a * z.polynomial({1.283791661e-01, -3.761262596e-01, 1.128358543e-01, -2.685381286e-02,
                                          5.188328214e-03, -8.010198362e-04, 7.853876014e-05});
  const Real bounded = choose(a < 4, a, x.constant(4));
  const Real far =
      1.0 - expWithin(-bounded.polynomial({1.664477750e-04, 1.127797246e+00, 6.369760633e-01, 1.041136757e-01,
                                           -2.231521346e-02, 3.065490164e-03, -1.982196554e-04}));
  return choose(x.isNan(), x, choose(a < 1, near, far).withSignOf(x));
}

Real sinh(Real x) { return sinhBy(exp, expm1, x); }
Real cosh(Real x) { return coshBy(exp, x); }
Real asinh(Real x) { return asinhBy(log, log1p, x); }
Real acosh(Real x) { return acoshBy(log, log1p, x); }
Real atanh(Real x) { return atanhBy(log1p, x); }

struct Turned {
  Real sine, cosine;
};

/// Sine and cosine of x: subtracts the nearest multiple n of pi / 2 in double precision, since a float next to a
/// multiple keeps few of its bits; then evaluates polynomials on [-pi / 4, pi / 4], exchanged and negated by quadrant.
/// pi / 2 is in two parts, the first of 33 bits: its products are exact for |n| < 2^20; trig_range_reduction.h reduces
/// floats beyond that. For -0 these differences are +0, so the sine is x itself.
Turned sincos(Real x) {
  mlir::PatternRewriter& rewriter = x.in->rewriter;
  const Reals wide{rewriter, x.in->loc, x.in->withElement(rewriter.getF64Type())};
  auto narrowed = [&](Real y) {
    return Real{x.in, mlir::arith::TruncFOp::create(rewriter, x.in->loc, x.in->type, y.value)};
  };
  const Real w{&wide, mlir::arith::ExtFOp::create(rewriter, x.in->loc, wide.type, x.value)};
  const Real n = (w * 6.36619772367581382433e-01).rounded();
  const Real near = (w - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11;
  const auto [quarter, rest] =
      branchIfAnyLane<2>(needsPayneHanek(x), {n - (n * 0.25).rounded() * 4.0, near}, [&]() -> std::array<Real, 2> {
        const TrigReduction turns = reduceFloatByPayneHanek(w);
        return {turns.quarter, turns.rest};
      });
  const Real r = narrowed(rest), z = r * r;
  const Bits quadrant = (narrowed(quarter) + kShift).bits();
  const Real s = r + r * z * z.polynomial({-1.666666666e-01, 8.333331864e-03, -1.984008108e-04, 2.724918508e-06});
  const Real c = 1.0 - (z * 0.5 - z * z * z.polynomial({4.166666465e-02, -1.388830036e-03, 2.454734865e-05}));
  const mlir::Value even = (quadrant & 1).isZero();
  const Real sine = choose(even, s, c), cosine = choose(even, c, s);
  return {choose(x == 0, x, choose((quadrant & 2).isZero(), sine, -sine)),
          choose(((quadrant + 1) & 2).isZero(), cosine, -cosine)};
}

Real formulaOf(mlir::Operation* op, Real x) {
  return llvm::TypeSwitch<mlir::Operation*, Real>(op)
      .Case<math::ExpOp>([&](auto) { return op->hasAttr(kNonPositiveArgument) ? expAtMostOne(x) : exp(x); })
      .Case<math::ExpM1Op>([&](auto) { return expm1(x); })
      .Case<math::LogOp>([&](auto) { return log(x); })
      .Case<math::Log1pOp>([&](auto) { return log1p(x); })
      .Case<math::TanhOp>([&](auto) { return tanh(x); })
      .Case<math::ErfOp>([&](auto) { return erf(x); })
      .Case<math::SinOp>([&](auto) { return sincos(x).sine; })
      .Case<math::CosOp>([&](auto) { return sincos(x).cosine; })
      .Case<math::SinhOp>([&](auto) { return sinh(x); })
      .Case<math::CoshOp>([&](auto) { return cosh(x); })
      .Case<math::AsinhOp>([&](auto) { return asinh(x); })
      .Case<math::AcoshOp>([&](auto) { return acosh(x); })
      .Case<math::AtanhOp>([&](auto) { return atanh(x); })
      .Case<math::TanOp>([&](auto) {
        const Turned turned = sincos(x);
        return turned.sine / turned.cosine;
      })
      .Default([&](auto) { return Real{x.in, nullptr}; });
}

}  // namespace

void populateSingleMathPatterns(mlir::RewritePatternSet& patterns) {
  mlir::MLIRContext* context = patterns.getContext();
  patterns.add<FormulaPattern>(context, mlir::Float32Type::get(context), formulaOf);
}

}  // namespace tessera::compiler::codegen
