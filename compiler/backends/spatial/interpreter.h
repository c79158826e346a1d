#pragma once

#include <functional>
#include <vector>

#include "compiler/backends/spatial/program.h"

namespace tessera::compiler::simulator {

/// Per tensor of the program (Buffer::tensor), in their order: row-major bytes in the element types of the program.
using TensorBytes = std::vector<std::vector<uint8_t>>;

/// Largest memory that is allocated for a run, in bytes.
inline constexpr int64_t kMaxBytes = int64_t{1} << 30;

/// Executes the program step by step: every described memory is an array of bytes, every copy moves bytes, every call
/// computes the described instruction. Bytes that no step wrote are 0xff (NaN or -1). Every address is checked to be
/// within its buffer, within its memory and aligned, and every block that is read must be present; violations are
/// INVALID_ARGUMENT with the step's path. `only` selects trips of parallel loops, see walk(). Returns, for each element
/// of the destination, whether a call began its sum. Fails with RESOURCE_EXHAUSTED for memories of more than
/// kMaxBytes.
absl::StatusOr<std::vector<bool>> execute(const Program& program, TensorBytes& tensors,
                                          const std::function<bool(size_t loop, int64_t trip)>& only = nullptr);

}  // namespace tessera::compiler::simulator
