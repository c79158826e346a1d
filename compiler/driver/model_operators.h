#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// The loop nests of an imported model before any rewrite, with affine accesses: what instructions are matched against
/// (compiler/intrinsic). Nodes are numbered as viewModel() has them. A nest that is no sum of products, plain sum or
/// extremum of elements says why in `obstacle`.
std::vector<v1::OperatorNest> operatorsOf(const ImportedModel& model);

/// One operation as a nest; `node` is left for the caller.
v1::OperatorNest nestOf(mlir::linalg::LinalgOp op);

}  // namespace tessera::compiler
