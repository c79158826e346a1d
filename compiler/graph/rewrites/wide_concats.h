#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Operands of one concatenation: its kernel has a loop for each, and what code generation takes grows faster than
/// their number (500 operands 9 s, 2,000 end LLVM).
constexpr int kMostConcatOperands = 32;

/// Makes a concatenation of more operands a tree: of kMostConcatOperands neighbours each, then of what those make.
/// Equal parts make equal kernels, and where the parts of a stage lie one after the other the next stage copies nothing
/// (BufferPlan::placeConcat). Returns how many concatenations were cut.
int cutWideConcats(mlir::func::FuncOp main);

}  // namespace tessera::compiler
