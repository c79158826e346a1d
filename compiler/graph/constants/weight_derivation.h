#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/constants/dense_value.h"
#include "compiler/ir/imported_model.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// How a weight is computed from others: a function of `sources`, all of which have bytes, with one result. An artifact
/// may store the sources alone and compute the weight before its first run (plan/prepared_weights.h).
struct WeightDerivation {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  std::vector<Weight> sources;

  int64_t sourceBytes() const;
};

/// The weight's value, computed here and now; nothing when more than `budget` points of loops have to be visited.
std::optional<DenseValue> evaluate(const WeightDerivation& derivation, int64_t& budget);

/// Expresses `value` by weights; `weightOf` is null for what is no weight argument. Weights that are derived themselves
/// are expressed by their sources. Nothing when it takes more operations than a preparation step should have, or one
/// that code generation compiles at a model's border only.
std::shared_ptr<const WeightDerivation> derivationOf(mlir::Value value,
                                                     llvm::function_ref<const Weight*(mlir::Value)> weightOf);

}  // namespace tessera::compiler
