#pragma once

#include <memory>
#include <vector>

#include "compiler/intrinsic/nest.h"
#include "compiler/loopnest/nest.h"

namespace tessera::compiler::simulator {

/// The effect of one call on its operands' blocks, derived from the compute abstraction (definition 3): iterations,
/// bounds, arithmetic and element types.
class Instruction {
 public:
  virtual ~Instruction() = default;
  /// Takes one block for each operand, destination first, with elements in row-major order. Reads and writes the
  /// destination.
  virtual void operator()(const std::vector<uint8_t*>& blocks) = 0;
};

/// Fails with FAILED_PRECONDITION for instructions with too many points to run, and for integer sums of floating-point
/// numbers.
absl::StatusOr<std::unique_ptr<Instruction>> instructionOf(const v1::Intrinsic& intrinsic, const loopnest::Nest& nest);

/// The neutral element of a form in a type: the initial value of results, and the value of padding.
double neutralReal(intrinsic::Form form);
int64_t neutralInteger(intrinsic::Form form, v1::DataType type);

}  // namespace tessera::compiler::simulator
