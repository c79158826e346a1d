#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/constants/dense_value.h"
#include "compiler/ir/imported_model.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// Computes a weight from others: a function of `sources` with one result. The sources have bytes. An artifact may
/// store the sources only and compute the weight before its first run (plan/prepared_weights.h).
struct WeightDerivation {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  std::vector<Weight> sources;

  int64_t sourceBytes() const;
};

/// Evaluates the derivation now. Returns nothing if that takes more than `budget` loop points.
std::optional<DenseValue> evaluate(const WeightDerivation& derivation, int64_t& budget);

/// Expresses `value` by weights. `weightOf` returns the weight of an argument, or null. Derived weights are replaced by
/// their sources. Returns nothing if this takes more operations than a preparation step should have, or an operation
/// that code generation compiles only at a model's inputs and outputs.
std::shared_ptr<const WeightDerivation> derivationOf(mlir::Value value,
                                                     llvm::function_ref<const Weight*(mlir::Value)> weightOf);

}  // namespace tessera::compiler
