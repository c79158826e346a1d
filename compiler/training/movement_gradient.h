#pragma once

#include "absl/status/status.h"
#include "compiler/training/adjoints.h"

namespace tessera::compiler::training {

/// Adds the gradients of a movement's operands: the inverse movement of the gradient of its result. Covers reshapes,
/// slices, paddings and concatenations. Returns false for another kind of operation.
absl::StatusOr<bool> differentiateMovement(Emitter& e, mlir::Operation& op, Adjoints& adjoints);

}  // namespace tessera::compiler::training
