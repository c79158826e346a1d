#pragma once

#include <cstdint>

#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// A linalg.generic that only permutes dimensions: result dimension d is source dimension permutation[d].
/// Empty for anything else.
llvm::SmallVector<int64_t> permutationOf(mlir::Operation* op);

}  // namespace tessera::compiler
