#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Operands of one concatenation. Its kernel has a loop for each, and code generation takes more than linear time in
/// their number (500 operands 9 s; 2,000 crash LLVM).
constexpr int kMaxConcatOperands = 32;

/// Turns a concatenation of more operands into a tree: kMaxConcatOperands neighbours each, then their results. Equal
/// parts have equal kernels, and if the parts of a stage are contiguous, the next stage copies nothing
/// (BufferPlan::placeConcat). Returns the number of concatenations cut.
int splitWideConcats(mlir::func::FuncOp main);

}  // namespace tessera::compiler
