#pragma once

#include "compiler/graph/slices/access_trace.h"

namespace tessera::compiler {

/// The loop of `trace` along which a softmax runs that only `product` reads, as its left operand: maximum of a row,
/// exp(x - maximum), sum of the row, division, each an operation of its own. -1 where there is none. Such a product may
/// run in blocks of that loop with a running maximum and sum ("r0" of ChainTiling).
int softmaxLoop(const AccessTrace& trace, mlir::linalg::LinalgOp product);

}  // namespace tessera::compiler
