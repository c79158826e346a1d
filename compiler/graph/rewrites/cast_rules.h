#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler {

/// Whether floating-point type `wide` can represent every value of `narrow`.
bool holds(mlir::Type wide, mlir::Type narrow);

/// Adds the rules for conversions within one body; see eliminateCasts.
void addCastRules(mlir::RewritePatternSet& patterns, int& count);

}  // namespace tessera::compiler
