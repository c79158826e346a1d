#pragma once

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// Whether a padding is of fixed amounts, none negative, of a constant.
bool isPlainPad(mlir::tensor::PadOp pad);

}  // namespace tessera::compiler
