#include "compiler/backends/cpu/math/math_double.h"

#include "compiler/backends/cpu/math/formula_pattern.h"
#include "compiler/backends/cpu/math/hyperbolic.h"
#include "compiler/backends/cpu/math/lanes.h"
#include "compiler/backends/cpu/math/trig_range_reduction.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tessera::compiler::codegen {
namespace {

namespace math = mlir::math;

constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2e = 1.44269504088896340736;
/// Adding this to an integer below 2^51 leaves the integer in the low bits: conversions without a conversion
/// instruction.
constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
constexpr int64_t kShiftBits = 0x4338000000000000;

Bits integerOf(Real whole) { return (whole + kShift).bits() + -kShiftBits; }
Real realFrom(Bits integer) { return realOf(integer + kShiftBits) - kShift; }

/// p 2^n for integer n in [-1100, 1100], in two steps because 2^n itself may not be representable.
Real scaled(Real p, Bits n) {
  const Bits half = integerOf((realFrom(n) * 0.5).rounded());
  auto power = [](Bits e) { return realOf((e + 1023) << 52); };
  return p * power(half) * power(n - half);
}

/// Taylor series of e^r - 1, |r| <= ln 2 / 2: the first omitted term is below 2^-57.
Real seriesOfExpm1(Real r) {
  return r + r * r *
                 r.polynomial({1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800});
}

Real clamped(Real x, double low, double high) {
  Real bounded = choose(x < low, x.constant(low), x);
  return choose(bounded >= high, x.constant(high), bounded);
}

Real exp(Real x) {
  const Real y = clamped(x, -746, 710);
  const Real n = (y * kLog2e).rounded();
  const Real r = y - n * kLn2High - n * kLn2Low;
  return choose(x.isNan(), x, scaled(1.0 + seriesOfExpm1(r), integerOf(n)));
}

Real exp2(Real x) {
  const Real y = clamped(x, -1080, 1025);
  const Real n = y.rounded();
  return choose(x.isNan(), x, scaled(1.0 + seriesOfExpm1((y - n) * 0.69314718055994530942), integerOf(n)));
}

/// The series is +0 at -0.
Real expm1(Real x) { return choose(x == 0, x, choose(x.abs() < 0.34657, seriesOfExpm1(x), exp(x) - 1)); }

/// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): log x = e ln 2 + log(1 + f).
Real log(Real x) {
  const mlir::Value small = x < 2.2250738585072014e-308;
  const Real y = choose(small, x * 18014398509481984.0, x);  // 2^54
  // Subtracting the bits of sqrt(1/2) aligns the exponent with that interval.
  const Bits aligned = y.bits() + (0x3ff0000000000000 - 0x3fe6a09e00000000);
  const Real e = realFrom((aligned >> 52) + -1023) - choose(small, x.constant(54), x.constant(0));
  const Real f = realOf((aligned & 0x000fffffffffffff) + 0x3fe6a09e00000000) - 1;
  const Real s = f / (2.0 + f), z = s * s, half = f * f * 0.5;
  const Real r = z * z.polynomial({6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                   2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                   1.479819860511658591e-01});
  Real result = e * kLn2High - ((half - (s * (half + r) + e * kLn2Low)) - f);
  result = choose(x == kInf, x, result);
  result = choose(x < 0, x.constant(kNan), result);
  result = choose(x == 0, x.constant(-kInf), result);
  return choose(x.isNan(), x, result);
}

Real log1p(Real x) {
  const Real u = x + 1;
  const Real corrected = log(u) + (x - (u - 1)) / u;
  return choose(x.abs() < 1e-17, x, choose(u == kInf, x, choose(u == 0, x.constant(-kInf), corrected)));
}

Real tanh(Real x) {
  const Real t = expm1(x.abs() * 2.0);
  return choose(x.isNan(), x, choose(x.abs() >= 22, x.constant(1), t / (t + 2))).withSignOf(x);
}

Real sinh(Real x) { return sinhBy(exp, expm1, x); }
Real cosh(Real x) { return coshBy(exp, x); }
Real asinh(Real x) { return asinhBy(log, log1p, x); }
Real acosh(Real x) { return acoshBy(log, log1p, x); }
Real atanh(Real x) { return atanhBy(log1p, x); }

struct Turned {
  Real sine, cosine;
};

/// Sine and cosine of x: subtracts the nearest multiple n of pi / 2, exact in three parts of 33 bits for |n| < 2^20
/// (larger arguments: trig_range_reduction.h), then evaluates the kernels of fdlibm, exchanged and negated by quadrant.
/// For -0 these differences are +0, so the sine is x itself.
Turned sincos(Real x) {
  const Real n = (x * 6.36619772367581382433e-01).rounded();
  const Real near = ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) -
                    n * 2.02226624871116645580e-21 - n * 8.47842766036889956997e-32;
  const auto [quarter, r] = branchIfAnyLane<2>(needsPayneHanek(x), {n, near}, [&]() -> std::array<Real, 2> {
    const TrigReduction turns = reduceDoubleByPayneHanek(x);
    return {turns.quarter, turns.rest};
  });
  const Real z = r * r;
  const Real s =
      r + r * z *
              z.polynomial({-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
                            2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10});
  const Real c = 1.0 - (z * 0.5 - z * z *
                                      z.polynomial({4.16666666666666019037e-02, -1.38888888888741095749e-03,
                                                    2.48015872894767294178e-05, -2.75573143513906633035e-07,
                                                    2.08757232129817482790e-09, -1.13596475577881948265e-11}));
  const Bits quadrant = integerOf(quarter);
  const mlir::Value even = (quadrant & 1).isZero();
  const Real sine = choose(even, s, c), cosine = choose(even, c, s);
  return {choose(x == 0, x, choose((quadrant & 2).isZero(), sine, -sine)),
          choose(((quadrant + 1) & 2).isZero(), cosine, -cosine)};
}

/// atan |x| relative to one of five points p: atan x = atan p + atan((x - p) / (1 + p x)).
Real atan(Real x) {
  const Real a = x.abs();
  Real numerator = x.constant(-1), denominator = a, high = x.constant(1.57079632679489655800e+00),
       low = x.constant(6.12323399573676603587e-17);
  auto below = [&](double bound, Real num, Real den, double from, double rest) {
    const mlir::Value inside = a < bound;
    numerator = choose(inside, num, numerator);
    denominator = choose(inside, den, denominator);
    high = choose(inside, x.constant(from), high);
    low = choose(inside, x.constant(rest), low);
  };
  below(2.4375, a - 1.5, 1.0 + a * 1.5, 9.82793723247329054082e-01, 1.39033110312309984516e-17);
  below(1.1875, a - 1, a + 1, 7.85398163397448278999e-01, 3.06161699786838301793e-17);
  below(0.6875, a * 2.0 - 1, a + 2, 4.63647609000806093515e-01, 2.26987774529616870924e-17);
  below(0.4375, a, x.constant(1), 0, 0);
  const Real t = numerator / denominator, z = t * t;
  const Real s = z * z.polynomial({3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
                                   -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
                                   6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
                                   -3.65315727442169155270e-02, 1.62858201153657823623e-02});
  return (high - ((t * s - low) - t)).withSignOf(x);
}

Real asin(Real x) { return atan(x / ((1.0 - x) * (1.0 + x)).sqrt()); }
Real acos(Real x) { return 2.0 * atan(((1.0 - x) / (1.0 + x)).sqrt()); }

Real atan2(Real y, Real x) {
  const Real ay = y.abs(), ax = x.abs();
  const mlir::Value both_inf = choose(ay == kInf, ax, x.constant(0)) == kInf;
  const Real quotient = choose(both_inf, x.constant(1), choose(ay == 0, y.constant(0), ay / ax));
  const Real angle = choose(ax.isNan(), x, atan(quotient));
  // The sign of zero counts: x is negative when its sign bit is set.
  const mlir::Value right = (x.bits() >> 63).isZero();
  return choose(y.isNan(), y,
                choose(right, angle, 3.14159265358979311600e+00 - (angle - 1.2246467991473531772e-16)).withSignOf(y));
}

/// 1 - erf(a) for a >= 1.25 as e^(-a^2 - 0.5625 + R/S) / a; the high half of a squares without rounding.
Real erfcTail(Real a) {
  const Real s = 1.0 / (a * a);
  const mlir::Value near = a < 1 / 0.35;
  const Real r =
      choose(near,
             s.polynomial({-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
                           -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
                           -8.12874355063065934246e+01, -9.81432934416914548592e+00}),
             s.polynomial({-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                           -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                           -4.83519191608651397019e+02}));
  const Real q =
      choose(near,
             s.polynomial({1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
                           6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
                           6.57024977031928170135e+00, -6.04244152148580987438e-02}),
             s.polynomial({1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
                           3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
                           -2.24409524465858183362e+01}));
  const Real z = realOf(a.bits() & ~int64_t{0xffffffff});
  return exp(-(z * z) - 0.5625) * exp((z - a) * (z + a) + r / q) / a;
}

/// erf on [0, 0.84375) as a + a y(a^2), on [0.84375, 1.25) around 1.
struct ErfParts {
  Real y;     ///< erf(a) = a + a y
  Real edge;  ///< erf(a) = 0.845... + edge
};
constexpr double kErfOne = 8.45062911510467529297e-01;

ErfParts erfNear(Real a) {
  const Real z = a * a, s = a - 1;
  return {z.polynomial({1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                        -5.77027029648944159157e-03, -2.37630166566501626084e-05}) /
              z.polynomial({1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
                            1.32494738004321644526e-04, -3.96022827877536812320e-06}),
          s.polynomial({-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
                        3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
                        -2.16637559486879084300e-03}) /
              s.polynomial({1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
                            1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02})};
}

Real erf(Real x) {
  const Real a = x.abs();
  const ErfParts near = erfNear(a);
  Real result = choose(a >= 6, x.constant(1), 1.0 - erfcTail(a));
  result = choose(a < 1.25, kErfOne + near.edge, result);
  result = choose(a < 0.84375, a + a * near.y, result);
  return choose(x.isNan(), x, result.withSignOf(x));
}

Real erfc(Real x) {
  const Real a = x.abs();
  const ErfParts near = erfNear(a);
  const mlir::Value negative = x < 0;
  const Real tail = choose(a >= 28, x.constant(0), erfcTail(a));
  Real result = choose(negative, 2.0 - tail, tail);
  result = choose(a < 1.25, choose(negative, 1.0 + (kErfOne + near.edge), (1.0 - kErfOne) - near.edge), result);
  result = choose(a < 0.84375, choose(x < 0.25, 1.0 - (x + x * near.y), 0.5 - (x - 0.5 + x * near.y)), result);
  return choose(x.isNan(), x, result);
}

Real cbrt(Real x) {
  const mlir::Value small = x.abs() < 1e-290;  // where y^3 would lose bits
  const Real a = choose(small, x.abs() * 0x1p600, x.abs());
  const Real y = exp(log(a) * (1.0 / 3));
  const Real root = y - (y * y * y - a) / (3.0 * y * y);  // one Newton step
  const Real better = choose(small, root * 0x1p-200, root);
  return choose(choose(a == 0, x.constant(kInf), a) == kInf, x, better.withSignOf(x));
}

Real round(Real x) {
  const Real whole = x.apply<math::TruncOp>();
  const Real step = choose((x - whole).abs() >= 0.5, x.constant(1), x.constant(0));
  return choose(x.abs() < 4503599627370496.0, (whole + step.withSignOf(x)).withSignOf(x), x);
}

Real formulaOf(mlir::Operation* op, Real x) {
  return llvm::TypeSwitch<mlir::Operation*, Real>(op)
      .Case<math::ExpOp>([&](auto) { return exp(x); })
      .Case<math::Exp2Op>([&](auto) { return exp2(x); })
      .Case<math::ExpM1Op>([&](auto) { return expm1(x); })
      .Case<math::LogOp>([&](auto) { return log(x); })
      .Case<math::Log2Op>([&](auto) { return log(x) * kLog2e; })
      .Case<math::Log10Op>([&](auto) { return log(x) * 0.43429448190325182765; })
      .Case<math::Log1pOp>([&](auto) { return log1p(x); })
      .Case<math::TanhOp>([&](auto) { return tanh(x); })
      .Case<math::SinhOp>([&](auto) { return sinh(x); })
      .Case<math::CoshOp>([&](auto) { return cosh(x); })
      .Case<math::AsinhOp>([&](auto) { return asinh(x); })
      .Case<math::AcoshOp>([&](auto) { return acosh(x); })
      .Case<math::AtanhOp>([&](auto) { return atanh(x); })
      .Case<math::SinOp>([&](auto) { return sincos(x).sine; })
      .Case<math::CosOp>([&](auto) { return sincos(x).cosine; })
      .Case<math::TanOp>([&](auto) {
        const Turned turned = sincos(x);
        return turned.sine / turned.cosine;
      })
      .Case<math::AtanOp>([&](auto) { return atan(x); })
      .Case<math::AsinOp>([&](auto) { return asin(x); })
      .Case<math::AcosOp>([&](auto) { return acos(x); })
      .Case<math::Atan2Op>([&](auto) { return atan2(x, Real{x.in, op->getOperand(1)}); })
      .Case<math::ErfOp>([&](auto) { return erf(x); })
      .Case<math::ErfcOp>([&](auto) { return erfc(x); })
      .Case<math::CbrtOp>([&](auto) { return cbrt(x); })
      .Case<math::RoundOp>([&](auto) { return round(x); })
      .Default([&](auto) { return Real{x.in, nullptr}; });
}

}  // namespace

void populateDoubleMathPatterns(mlir::RewritePatternSet& patterns) {
  mlir::MLIRContext* context = patterns.getContext();
  patterns.add<FormulaPattern>(context, mlir::Float64Type::get(context), formulaOf);
}

}  // namespace tessera::compiler::codegen
