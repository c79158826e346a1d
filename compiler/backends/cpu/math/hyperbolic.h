#pragma once

#include <limits>

#include "compiler/backends/cpu/math/real_expression.h"

/// Hyperbolic functions and their inverses, computed from exponentials and logarithms: the same formulas in single and
/// double precision.
namespace tessera::compiler::codegen {

using RealFunction = Real (*)(Real);

/// Computed from |x| and e^|x| - 1 to avoid cancellation. For large |x|, e^|x| would overflow before the result does.
inline Real sinhBy(RealFunction exp, RealFunction expm1, Real x) {
  const Real a = x.abs(), t = expm1(a), w = exp(a * 0.5);
  return choose(a >= 22, w * 0.5 * w, 0.5 * (t + t / (t + 1))).withSignOf(x);
}

inline Real coshBy(RealFunction exp, Real x) {
  const Real a = x.abs(), e = exp(a), w = exp(a * 0.5);
  return choose(a >= 22, w * 0.5 * w, 0.5 * (e + 1.0 / e));
}

/// Computed from |x| to avoid cancellation. For large |x|, x^2 would overflow, and the logarithm alone is accurate.
inline Real asinhBy(RealFunction log, RealFunction log1p, Real x) {
  const Real a = x.abs(), square = a * a;
  const Real near = log1p(a + square / (1.0 + (square + 1).sqrt()));
  return choose(a >= 1e8, log(a) + 0.69314718055994530942, near).withSignOf(x);
}

/// Undefined below 1: far below, t and the root would cancel to a number, so NaN is selected explicitly.
inline Real acoshBy(RealFunction log, RealFunction log1p, Real x) {
  const Real t = x - 1;
  const Real near = log1p(t + (t * 2.0 + t * t).sqrt());
  return choose(x < 1, x.constant(std::numeric_limits<double>::quiet_NaN()),
                choose(x >= 1e8, log(x) + 0.69314718055994530942, near));
}

inline Real atanhBy(RealFunction log1p, Real x) {
  const Real a = x.abs();
  return (0.5 * log1p(2.0 * a / (1.0 - a))).withSignOf(x);
}

}  // namespace tessera::compiler::codegen
