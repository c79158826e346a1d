#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler::interpreter {

/// A loop of the model: the operation `tessera.loop`, which calls a function of the module, its body, in each
/// iteration. compiler/ir/loop_op.h defines it; this reads it without that code, so that the interpreter cannot repeat
/// its faults.
struct ModelLoop {
  static bool isLoop(mlir::Operation* op);
  /// INTERNAL where the operation and its body do not fit each other, or the body calls itself.
  static absl::StatusOr<ModelLoop> of(mlir::Operation* op);

  /// How many iterations run; nothing where only a run tells. The largest number where nothing ends the loop.
  std::optional<int64_t> iterations() const;
  /// Elements that one iteration moves: parts of scanned and stacked tensors, and results of operations that compute
  /// nothing. Budgets count them, for there may be any number of iterations.
  int64_t movedElements() const;

  mlir::Operation* op = nullptr;
  mlir::func::FuncOp body;
  llvm::SmallVector<mlir::func::FuncOp> bodies;  ///< its own, and each once those of the loops within it
  bool has_trip_count = false, has_condition = false;
  int64_t most = -1;  ///< iterations; -1: any number
  unsigned carried = 0, captured = 0;
  llvm::SmallVector<bool> scanned, stacked;  ///< one for each tensor: whether it is reversed
  llvm::SmallVector<int64_t> weights;        ///< of the body's last arguments: positions among the model's

  unsigned firstCarried() const { return (has_trip_count ? 1u : 0u) + (has_condition ? 1u : 0u); }
  unsigned firstScanned() const { return firstCarried() + carried; }
  unsigned firstCaptured() const { return firstScanned() + static_cast<unsigned>(scanned.size()); }
  llvm::ArrayRef<mlir::Type> typesOfWeights() const;

  /// The part that an iteration has of a tensor of `most` parts.
  int64_t partOf(int64_t iteration, bool reversed) const { return reversed ? most - 1 - iteration : iteration; }
};

}  // namespace tessera::compiler::interpreter
