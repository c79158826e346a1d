#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Absorbs a transpose next to a matrix product or convolution into the access function of the operand or result.
/// Splitting and merging attention heads and transposing keys then move no bytes. If the innermost dimension does not
/// stay innermost, only operands of matrix products are absorbed: code generation packs these by panels if they are
/// read often enough, whereas a result would be scattered from vectors. Returns the number of transposes absorbed.
int absorbTransposes(mlir::func::FuncOp main);

}  // namespace tessera::compiler
