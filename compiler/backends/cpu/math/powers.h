#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// x^y of f32 and f64 as e^(y log |x|), computed in f64, with the sign and the limits of C's pow. f32 is within 1 ulp,
/// including denormal results; f64 loses log2|y log x| bits. Constant exponents of 1/4, 1/2 and 3/4 become square
/// roots.
void populatePowerPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
