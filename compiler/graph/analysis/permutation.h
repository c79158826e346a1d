#pragma once

#include <cstdint>

#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Returns the permutation of a linalg.generic that only permutes dimensions: result dimension d is source dimension
/// permutation[d]. Empty for any other operation.
llvm::SmallVector<int64_t> permutationOf(mlir::Operation* op);

}  // namespace tessera::compiler
