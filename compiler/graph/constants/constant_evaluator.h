#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/graph/constants/dense_value.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

struct WeightDerivation;

/// Evaluates linalg and tensor operations whose operands are known at compile time.
class ConstantEvaluator {
 public:
  /// Defines the contents of `value`.
  void define(mlir::Value value, DenseValue known) { known_[value] = std::move(known); }
  /// Defines `value` by a derivation that is evaluated when needed.
  void define(mlir::Value value, std::shared_ptr<const WeightDerivation> derivation) {
    derived_[value] = std::move(derivation);
  }

  /// Whether the evaluator can compute the operation once its tensor operands are known.
  static bool hasRule(mlir::Operation* op);

  /// Evaluates `value` and everything it depends on. Returns nothing if an operand is unknown or if more than `budget`
  /// loop points are needed; subtracts the points visited from `budget`.
  std::optional<DenseValue> evaluate(mlir::Value value, int64_t& budget);

  /// Frees the computed contents of `value`. Definitions stay.
  void forget(mlir::Value value) { computed_.erase(value); }

 private:
  bool compute(mlir::Operation* op, int64_t& budget);

  llvm::DenseMap<mlir::Value, DenseValue> known_;
  llvm::DenseMap<mlir::Value, std::shared_ptr<const WeightDerivation>> derived_;
  llvm::DenseMap<mlir::Value, DenseValue> computed_;
};

}  // namespace tessera::compiler
