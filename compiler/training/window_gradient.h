#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/training/accumulation.h"
#include "compiler/training/adjoints.h"

namespace tessera::compiler::training {

/// Adds the gradients of the operands `operands` of a structured operation: as a tensor expression, which
/// gradient/gradient.h differentiates. For subscripts that are sums of loops, as of convolutions and pooling windows.
/// Fails with UNSUPPORTED_OPERATOR at the node for a body that tensor expressions cannot state.
absl::Status throughWindows(Emitter& e, mlir::linalg::GenericOp op, const Accumulation& accumulation,
                            const std::vector<unsigned>& operands, Adjoints& adjoints);

}  // namespace tessera::compiler::training
