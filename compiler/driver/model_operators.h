#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// Returns the loop nests of an imported model before any rewrite, with affine accesses, for matching against
/// instructions (compiler/intrinsic). Nodes have the numbers of viewModel(). A nest that is neither a sum of products
/// nor a plain sum or extremum of elements gives the reason in `obstacle`.
std::vector<v1::OperatorNest> operatorsOf(const ImportedModel& model);

/// Returns one operation as a nest. The caller sets `node`.
v1::OperatorNest nestOf(mlir::linalg::LinalgOp op);

}  // namespace tessera::compiler
