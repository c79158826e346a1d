#pragma once

#include "llvm/IR/Function.h"

namespace tessera::compiler::codegen {

/// Keeps a shared address in a register. Where many arithmetic instructions read operands at constant distances from
/// base + index, this computes the sum once, so that each instruction addresses register + constant.
///
/// The reason: an x86 core executes an instruction with a memory operand as one micro-operation, unless its address has
/// an index register, which makes it two. Multiply-adds that each read one element then run at two thirds of their
/// rate. LLVM minimizes the number of registers and would fold the index into every instruction.
void pinAddresses(llvm::Function& function);

}  // namespace tessera::compiler::codegen
