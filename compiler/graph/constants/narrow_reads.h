#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Reduces constants to the parts that are read. If only slices read a fill, a uniform constant or a structured
/// operation on constants, and the slices are smaller in total than the whole, each slice becomes that operation on
/// slices of its operands. `isConstant` tells which values will be folded. Returns the number of slices moved.
int sinkSlicesIntoConstants(mlir::func::FuncOp main, llvm::function_ref<bool(mlir::Value)> isConstant);

}  // namespace tessera::compiler
