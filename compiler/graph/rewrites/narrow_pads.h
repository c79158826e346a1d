#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Removes dimensions of extent one from paddings that do not pad them, if the padding's operand or reader is a view
/// without them. A padding between two operations without such a dimension (one block of channels) can then join them.
/// Views restore the dimension for other readers. Returns the number of paddings. Runs after assignLayouts.
int dropUnitPadDimensions(mlir::func::FuncOp main);

}  // namespace tessera::compiler
