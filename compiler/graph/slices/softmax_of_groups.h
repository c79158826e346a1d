#pragma once

#include <optional>

#include "compiler/fusion/block_planner.h"
#include "compiler/graph/slices/access_trace.h"

namespace tessera::compiler {

/// Returns the loop of `trace` along which a softmax runs that only `product` reads, as its left operand: maximum of a
/// row, exp(x - maximum), sum of the row, division, each an operation of its own. -1 if there is none. Such a product
/// may run in blocks of that loop with a running maximum and sum (online softmax, "r0" of ChainTiling).
int softmaxLoop(const AccessTrace& trace, mlir::linalg::LinalgOp product);

/// The scores of such a softmax, if a mask compares positions, with a subscript for each of their loops.
struct MaskedScores {
  mlir::linalg::LinalgOp op;
  Subscripts iterations;
  int softmax_loop = -1;  ///< the loop over keys
};
std::optional<MaskedScores> maskedScores(const AccessTrace& trace, mlir::linalg::LinalgOp product, int softmax_loop);

/// Returns the fraction of the scores that slices of `tiles` (per loop of the trace) compute. They skip keys that the
/// mask removes from all of their rows, in blocks of keys, or in groups of keys if rows are whole.
double keptShare(const MaskedScores& scores, const fusion::Tiles& tiles);

}  // namespace tessera::compiler
