#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Whether an operation on tensors computes an address or a divisor of what it reads of them: of elements that nobody
/// computed these could be anything. `may_be_missing`: of which tensors there may be such elements, where a body reads
/// at places of its own; of its arguments it always may.
bool isDelicate(mlir::Operation* op, llvm::function_ref<bool(mlir::Value)> may_be_missing);

}  // namespace tessera::compiler
