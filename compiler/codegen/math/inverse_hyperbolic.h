#pragma once

#include "compiler/codegen/math/real_expression.h"

/// Inverse hyperbolic functions by the logarithms of a precision: the same formulas in single and double.
namespace tessera::compiler::codegen {

using RealFunction = Real (*)(Real);

/// Of |x|, so that nothing cancels; far out x^2 would overflow, and the logarithm alone is left.
inline Real asinhBy(RealFunction log, RealFunction log1p, Real x) {
  const Real a = x.abs(), square = a * a;
  const Real near = log1p(a + square / (1.0 + (square + 1).sqrt()));
  return choose(a >= 1e8, log(a) + 0.69314718055994530942, near).withSignOf(x);
}

inline Real acoshBy(RealFunction log, RealFunction log1p, Real x) {
  const Real t = x - 1;
  return choose(x >= 1e8, log(x) + 0.69314718055994530942, log1p(t + (t * 2.0 + t * t).sqrt()));
}

inline Real atanhBy(RealFunction log1p, Real x) {
  const Real a = x.abs();
  return (0.5 * log1p(2.0 * a / (1.0 - a))).withSignOf(x);
}

}  // namespace tessera::compiler::codegen
