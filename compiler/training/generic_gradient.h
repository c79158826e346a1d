#pragma once

#include "absl/status/status.h"
#include "compiler/training/adjoints.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler::training {

/// Adds the gradients of a structured operation's operands. `adjoints` has that of its result.
///
/// Operands whose subscripts are loops, and reads at computed indices, are differentiated here: the gradient is an
/// operation over the same loops whose result has the operand's subscripts. Operands with other subscripts (windows) go
/// through window_gradient.h. Fails with UNSUPPORTED_OPERATOR at the node.
absl::Status differentiateGeneric(Emitter& e, mlir::linalg::GenericOp op, Adjoints& adjoints);

}  // namespace tessera::compiler::training
