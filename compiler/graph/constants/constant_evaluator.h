#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/graph/constants/dense_value.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

struct WeightDerivation;

/// Computes results of linalg and tensor operations from operands that are known at compile time.
class ConstantEvaluator {
 public:
  /// Makes `value` known.
  void define(mlir::Value value, DenseValue known) { known_[value] = std::move(known); }
  /// The same, computed when it is needed.
  void define(mlir::Value value, std::shared_ptr<const WeightDerivation> derivation) {
    derived_[value] = std::move(derivation);
  }

  /// Whether the operation has a rule here, given that its tensor operands are known.
  static bool hasRule(mlir::Operation* op);

  /// The value, computed with everything it depends on; nothing when some operand is not known or when the
  /// loops left (`budget`, decremented by the points visited) do not suffice.
  std::optional<DenseValue> evaluate(mlir::Value value, int64_t& budget);

  /// Frees what was computed for `value`; definitions stay.
  void forget(mlir::Value value) { computed_.erase(value); }

 private:
  bool compute(mlir::Operation* op, int64_t& budget);

  llvm::DenseMap<mlir::Value, DenseValue> known_;
  llvm::DenseMap<mlir::Value, std::shared_ptr<const WeightDerivation>> derived_;
  llvm::DenseMap<mlir::Value, DenseValue> computed_;
};

}  // namespace tessera::compiler
