#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Computes the bytes of all derived weights that `main` reads. They keep their derivations.
absl::Status computeDerived(mlir::func::FuncOp main, std::vector<Weight>& weights, const FoldedWeightStorage& memory);

/// Decides which derived weights the artifact stores and which it computes before its first run. If the weights take at
/// most 1.2 times the bytes of their sources, all are stored. Otherwise a weight is stored if isWorthDeriving()
/// declines it, or if it is less than a thousandth of all bytes. Without `prepare` all are stored. Computes the bytes
/// of stored weights; sets Weight.prepared of the others to their position in the result. Does not change `main`.
absl::StatusOr<std::vector<PlannedGraph::PreparedWeight>> selectPreparedWeights(mlir::func::FuncOp main,
                                                                                std::vector<Weight>& weights,
                                                                                const Chip& chip,
                                                                                const FoldedWeightStorage& memory,
                                                                                bool prepare);

}  // namespace tessera::compiler
