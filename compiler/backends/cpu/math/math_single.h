#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// A unit attribute of a math.exp whose argument is known to be at most zero, or NaN, as in a softmax.
inline constexpr char kNonPositiveArgument[] = "tessera.at_most_zero";

/// Mathematical functions of f32 computed in f32, without a library and without branches. Largest errors over all
/// floats, checked by math_test with and without fused multiply-add: exp, log, erf, tanh, log1p 1.5 ulp; expm1 2 ulp; 1
/// / (1 + exp(-x)) 2.5 ulp; sin and cos 1.5 ulp and tan 3.5 ulp, next to their zeros too; asinh, acosh, atanh, cosh 4
/// ulp; sinh 5 ulp. exp is 0 below -87.3365, where the result would be denormal; denormal arguments are exact. Method:
/// reduction by ln 2 in two parts (Cody and Waite), then minimax polynomials.
void populateSingleMathPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
