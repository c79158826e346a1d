#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Gives all derived weights that `main` reads their bytes. They keep their derivations.
absl::Status computeDerived(mlir::func::FuncOp main, std::vector<Weight>& weights, const FoldedMemory& memory);

/// Decides which derived weights the artifact stores and which it computes before its first run. A model whose weights
/// would take at most 1.2 times the bytes of what they are computed from stores all. Another one stores those that
/// isWorthDeriving() declines, and those that make no thousandth of its bytes. Without `prepare` every model stores
/// all. Sets Weight.prepared of the others, the positions in the answer, and gives those stored their bytes. Nothing of
/// `main` is changed.
absl::StatusOr<std::vector<PlannedGraph::PreparedWeight>> settleWeights(mlir::func::FuncOp main,
                                                                        std::vector<Weight>& weights, const Chip& chip,
                                                                        const FoldedMemory& memory, bool prepare);

}  // namespace tessera::compiler
