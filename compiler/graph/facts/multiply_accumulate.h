#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Whether the body is exactly out + a * b for the two inputs a and b, in one element type.
bool isMultiplyAccumulate(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler
