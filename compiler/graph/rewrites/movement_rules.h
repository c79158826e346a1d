#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler {

/// Add the two families of simplifyMovement's rules.
void addTransposeRules(mlir::RewritePatternSet& patterns, int& count);
void addSliceRules(mlir::RewritePatternSet& patterns, int& count);

}  // namespace tessera::compiler
