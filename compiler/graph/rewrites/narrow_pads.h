#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets paddings leave out dimensions of extent one that they do not pad, where what they read or who reads them sees
/// it without: a padding between two operations that know nothing of such a dimension (one block of channels) joins
/// them. Views put it back for who wants it. Returns the number of paddings. Behind assignLayouts.
int narrowPads(mlir::func::FuncOp main);

}  // namespace tessera::compiler
