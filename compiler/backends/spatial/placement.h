#pragma once

#include <string>
#include <vector>

#include "compiler/backends/spatial/program.h"

/// Assigns addresses to a program's buffers in their memories.
namespace tessera::compiler::simulator {

/// Alignment of tensors in bytes.
inline constexpr int64_t kTensorAlignment = 64;

int64_t alignedUp(int64_t bytes, int64_t alignment);

/// A buffer that does not fit.
struct Overflow {
  std::string message;  ///< empty: all fit
  int buffer = -1;      ///< position of the buffer; -1: tensors alone are too large
};

/// Places buffers after the tensors in their memory: tiles, twice if they are refilled (`again`, per buffer) and either
/// `overlap` is set or there is room; then the largest pieces of outgoing results that fit.
Overflow placeBuffers(Program& program, const std::vector<bool>& again, bool overlap);

}  // namespace tessera::compiler::simulator
