#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/intrinsic/program.h"

/// What programs of a described accelerator compute, step by step, by the abstraction alone: the instruction's loops
/// and its arithmetic. Shares nothing with verification. Numbers are integers; those of floating-point operands stand
/// for themselves, so small ones are exact.
namespace tessera::compiler::intrinsic {

/// Per tensor of an operator, in the order of its accesses: row-major elements.
using Tensors = std::vector<std::vector<int64_t>>;

/// Runs the program on `tensors`, in place. INVALID_ARGUMENT for an address outside of a buffer.
absl::Status run(const Program& program, const v1::Intrinsic& intrinsic, Tensors& tensors);

/// The operator's own loops, one point after another, in place.
void run(const Nest& software, Tensors& tensors);

/// Seeded tensors: small numbers, and for sources within their types. The destination's are not 0.
Tensors randomTensors(const Nest& software, uint64_t seed);

}  // namespace tessera::compiler::intrinsic
