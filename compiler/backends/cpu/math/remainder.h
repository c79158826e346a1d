#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// remf(x, y) as C's fmod, exact for all x and y: x - trunc(x / y) y in f64, corrected by one y where the quotient was
/// rounded up. Quotients of 2^52 and more are reduced by 26 bits at a time first, in a loop that ends when no lane has
/// one.
void populateRemainderPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
