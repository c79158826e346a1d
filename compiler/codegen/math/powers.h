#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// x^y of f32 and f64 as e^(y log |x|) with the sign and the limits of C's pow, in f64: of f32 within 1 ulp, denormal
/// results too; of f64 it loses log2|y log x| bits. Constant exponents of 1/4, 1/2 and 3/4 are square roots.
void populatePowerPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
