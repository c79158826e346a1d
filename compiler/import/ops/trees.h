#pragma once

#include "compiler/import/node.h"
#include "compiler/import/ops/tree_table.h"

namespace tessera::compiler {

/// How a target's score comes of the weights of the leaves that a row reaches.
enum class Aggregate { kSum, kAverage, kMin, kMax };

/// Scores of the targets for the rows of x (rows x features, f32 or f64): rows x targets in x's type, 0 where no leaf
/// of a row has a weight. An error is about the trees (tabulateTrees()).
absl::StatusOr<Tensor> scoreTrees(Emitter& e, const Tensor& x, const TreeEnsemble& ensemble, int64_t targets,
                                  Aggregate aggregate);

}  // namespace tessera::compiler
