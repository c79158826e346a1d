#pragma once

#include "llvm/IR/Function.h"

namespace tessera::compiler::codegen {

/// An address from which many operands of arithmetic are read, at constant distances, is computed into a register of
/// its own, instead of within every access.
///
/// An x86 core holds an instruction that computes on memory as one operation, but takes it apart again where its
/// address has an index register: the multiply-adds of a product of one column of vectors, each of which reads an
/// element, run at two thirds of their rate then. LLVM, which counts registers, prefers the index wherever it sees the
/// sum.
void holdAddresses(llvm::Function& function);

}  // namespace tessera::compiler::codegen
