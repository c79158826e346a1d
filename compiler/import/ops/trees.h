#pragma once

#include "compiler/import/node.h"
#include "compiler/import/ops/tree_table.h"

namespace tessera::compiler {

/// How the weights of the leaves that a row reaches combine to a target's score.
enum class Aggregate { kSum, kAverage, kMin, kMax };

/// Computes the scores of the targets for the rows of x (rows x features, f32 or f64): rows x targets in x's type, 0
/// where no reached leaf has a weight. Errors are those of tabulateTrees().
absl::StatusOr<Tensor> scoreTrees(Emitter& e, const Tensor& x, const TreeEnsemble& ensemble, int64_t targets,
                                  Aggregate aggregate);

}  // namespace tessera::compiler
