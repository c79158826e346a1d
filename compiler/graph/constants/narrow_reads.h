#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets constants be computed only as far as they are read: where slices are all that reads a fill, a uniform constant
/// or a structured operation on constants, and together they read less than all of it, each slice becomes that
/// operation on slices of its operands. `isConstant` says what will be folded. Returns the number of slices that moved.
int narrowConstantReads(mlir::func::FuncOp main, llvm::function_ref<bool(mlir::Value)> isConstant);

}  // namespace tessera::compiler
