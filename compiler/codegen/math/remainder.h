#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// remf(x, y), exact for all x and y, as C's fmod: x - trunc(x / y) y in f64, one y less where the quotient was rounded
/// up. Of quotients from 2^52 on 26 bits at a time are taken away first, in a loop that ends when no lane has one.
void populateRemainderPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
