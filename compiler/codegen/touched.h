#pragma once

#include "compiler/codegen/nest.h"

namespace tessera::compiler::codegen {

/// Whether the memory of an output is read or written: not where later statements have it from registers and it starts
/// from a scalar. A buffer that nothing else touches has no place then.
inline bool touchesOutput(const Statement& statement, size_t output) {
  const bool read =
      !statement.body()->getArgument(statement.inputs.size() + output).use_empty() && !statement.init[output];
  return statement.stored[output] || read;
}

/// Whether an input is read from memory.
inline bool touchesInput(const Operand& input) { return input.access.root && !input.from; }

}  // namespace tessera::compiler::codegen
