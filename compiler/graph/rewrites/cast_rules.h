#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler {

/// Whether every value of floating-point type `narrow` is one of `wide`.
bool holds(mlir::Type wide, mlir::Type narrow);

/// Rules on the conversions within one body; see eliminateCasts.
void addCastRules(mlir::RewritePatternSet& patterns, int& count);

}  // namespace tessera::compiler
