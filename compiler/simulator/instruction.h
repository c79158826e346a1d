#pragma once

#include <memory>
#include <vector>

#include "compiler/intrinsic/nest.h"

namespace tessera::compiler::simulator {

/// What one call does to its operands' blocks, by the compute abstraction alone (definition 3): the instruction's
/// iterations, bounds, arithmetic and element types.
class Instruction {
 public:
  virtual ~Instruction() = default;
  /// One block for each operand, destination first, elements in row-major order. The destination is read and written.
  virtual void operator()(const std::vector<uint8_t*>& blocks) = 0;
};

/// Fails with FAILED_PRECONDITION for more points than can be run, and where integers would be summed from floating-
/// point numbers.
absl::StatusOr<std::unique_ptr<Instruction>> instructionOf(const v1::Intrinsic& intrinsic, const intrinsic::Nest& nest);

/// What changes no sum and no extremum of a form in a type: what results begin with, and what padding brings.
double neutralReal(intrinsic::Form form);
int64_t neutralInteger(intrinsic::Form form, v1::DataType type);

}  // namespace tessera::compiler::simulator
