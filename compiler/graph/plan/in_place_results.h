#pragma once

#include <string>

#include "compiler/target/chip.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Returns the arguments of a step's function that its single result may overwrite: the function's last operation,
/// elementwise after one product, convolution or pool, reads them at the points that it writes, and nothing else in the
/// function reads them. Mostly residual sums. The caller knows whether other steps read the argument's bytes.
llvm::SmallVector<unsigned> overwritableArguments(mlir::func::FuncOp function);

/// Returns a sentence why code generation may write an element of the result before it has read the overwritten
/// operand; empty if it does not. Two methods do so: sums cut into blocks store partial results in the result where
/// sums are long or read distant vectors (codegen, contraction_memory), and instructions on whole tiles compute the
/// edges of a result twice.
std::string whyNotInPlace(mlir::func::FuncOp function, const Chip& chip);

}  // namespace tessera::compiler
