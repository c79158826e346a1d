#pragma once

#include "llvm/IR/Function.h"

namespace tessera::compiler::codegen {

/// Computes an address from which many arithmetic operands are read at constant distances into a register of its own,
/// instead of in every access.
///
/// An x86 core keeps an instruction with a memory operand as one micro-operation, but splits it if its address has an
/// index register. The multiply-adds of a product of one column of vectors, each of which reads an element, then run at
/// two thirds of their rate. LLVM minimizes registers and therefore prefers the index wherever it sees the sum.
void pinAddresses(llvm::Function& function);

}  // namespace tessera::compiler::codegen
