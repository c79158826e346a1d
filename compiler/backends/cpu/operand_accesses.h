#pragma once

#include "compiler/backends/cpu/nest.h"

namespace tessera::compiler::codegen {

/// Whether the memory of an output is read or written. It is not if later statements take the output from registers and
/// it starts from a scalar; a buffer that no other operand touches has no memory then.
inline bool accessesOutputMemory(const Statement& statement, size_t output) {
  const bool read =
      !statement.body()->getArgument(statement.inputs.size() + output).use_empty() && !statement.init[output];
  return statement.stored[output] || read;
}

/// Whether an input is read from memory.
inline bool accessesInputMemory(const Operand& input) { return input.access.root && !input.from; }

}  // namespace tessera::compiler::codegen
