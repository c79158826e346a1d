#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Takes out of the bodies of loops (ir/loop_op.h) what need not wait for the iteration before: products and reductions
/// of values that no iteration changes are computed once, before the loop; products of what is scanned with such values
/// are one product over all iterations, of which each scans its part. So a recurrent layer multiplies its inputs with
/// their weights at once, and the loop keeps the product of its state. Results of more than 1 GiB stay in the loop.
/// Bodies have linalg.generic instead of named operations from then on. Answers the operations that left a body.
int hoistFromLoops(mlir::func::FuncOp main);

}  // namespace tessera::compiler
