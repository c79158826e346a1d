#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Hoists work that does not depend on the previous iteration out of loop bodies (ir/loop_op.h). Products and
/// reductions of loop-invariant values are computed once, before the loop. Products of scanned tensors with
/// loop-invariant values become one product over all iterations, whose result is scanned. So a recurrent layer
/// multiplies its inputs with their weights at once, and the loop keeps the product of its state. Results of more than
/// 1 GiB stay in the loop. Named operations in bodies become linalg.generic. Returns the number of operations that left
/// a body.
int hoistFromLoops(mlir::func::FuncOp main);

}  // namespace tessera::compiler
