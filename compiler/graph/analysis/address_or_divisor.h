#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Whether the operation uses tensor elements as an index or divisor: with elements that nobody computed, these could
/// have any value. `may_be_missing` tells which tensors may have uncomputed elements, for reads at computed positions.
/// Arguments of a body always may.
bool computesAddressOrDivisor(mlir::Operation* op, llvm::function_ref<bool(mlir::Value)> may_be_missing);

}  // namespace tessera::compiler
