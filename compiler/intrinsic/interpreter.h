#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/intrinsic/program.h"

/// Executes programs of a described accelerator step by step, from the abstraction alone: the instruction's loops and
/// its arithmetic. Shares no code with verification. Numbers are integers; floating-point operands are represented by
/// integers too, so small values are exact.
namespace tessera::compiler::intrinsic {

/// Per tensor of an operator, in the order of its accesses: row-major elements.
using Tensors = std::vector<std::vector<int64_t>>;

/// Runs the program on `tensors` in place. Fails with INVALID_ARGUMENT for an address outside of a buffer.
absl::Status run(const Program& program, const v1::Intrinsic& intrinsic, Tensors& tensors);

/// Runs the operator's own loops point by point, in place.
void run(const Nest& software, Tensors& tensors);

/// Seeded random tensors of small nonzero integers: magnitudes 1 to 40 for types of one byte and 1 to 1000 for others,
/// half of them negative for signed types. No element is 0, because a 0 would hide a wrong product.
Tensors randomTensors(const Nest& software, uint64_t seed);

}  // namespace tessera::compiler::intrinsic
