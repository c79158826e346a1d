#pragma once

#include <string>
#include <vector>

#include "compiler/simulator/program.h"

/// Where a program's buffers lie in their memories.
namespace tessera::compiler::simulator {

/// Bytes that tensors begin at multiples of.
inline constexpr int64_t kTensorAlignment = 64;

int64_t alignedUp(int64_t bytes, int64_t alignment);

/// A buffer that does not fit.
struct Overflow {
  std::string message;  ///< empty: all fit
  int buffer = -1;      ///< position; -1: tensors alone are too large
};

/// Places what memories hold behind the tensors that lie in them: tiles, twice where they are filled `again` (per
/// buffer) and all are to overlap, or there is room; then the largest pieces of results on their way out that there is
/// room for.
Overflow placeBuffers(Program& program, const std::vector<bool>& again, bool overlap);

}  // namespace tessera::compiler::simulator
