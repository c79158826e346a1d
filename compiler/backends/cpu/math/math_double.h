#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// Mathematical functions of f64 computed in f64 without a library. Methods and coefficients are those of fdlibm (Sun
/// Microsystems, 1993), written without branches. Largest errors over the whole range, checked by math_test: exp, exp2,
/// log, log1p, atan, erf, cbrt 2 ulp; log2, sin, cos 3 ulp; expm1, tanh, sinh, cosh, tan, asin, acos, asinh, atanh,
/// erfc 5 ulp.
void populateDoubleMathPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
