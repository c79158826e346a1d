#pragma once

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// Whether a padding adds constant elements in fixed, non-negative amounts.
bool isConstantPad(mlir::tensor::PadOp pad);

}  // namespace tessera::compiler
