#pragma once

#include <string>

#include "compiler/target/chip.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Arguments of a step's function that its one result may be written over: the last operation, elementwise behind one
/// product, convolution or pool, reads them at the points that it writes, and nothing else in the function reads them.
/// A residual sum, most often. Of an argument's bytes the caller knows who else reads them.
llvm::SmallVector<unsigned> addendsOf(mlir::func::FuncOp function);

/// Why code generation may write to the result of such a function before it has read all that it is written over, in a
/// sentence; empty where it does not. What it runs otherwise stays as it is: sums are cut into blocks, whose partial
/// results wait in the result, where they are long or read vectors that lie far apart (codegen, contraction_memory);
/// instructions on whole tiles compute the edges of a result twice.
std::string whyWrittenEarly(mlir::func::FuncOp function, const Chip& chip);

}  // namespace tessera::compiler
