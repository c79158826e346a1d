#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler::interpreter {

/// A loop of the model: the operation `tessera.loop`, which calls a function of the module, its body, in each
/// iteration. Defined in compiler/ir/loop_op.h; this class parses it without that code, so that the interpreter cannot
/// share its bugs.
struct ModelLoop {
  static bool isLoop(mlir::Operation* op);
  /// Fails with INTERNAL if the operation and its body do not match, or the body calls itself.
  static absl::StatusOr<ModelLoop> of(mlir::Operation* op);

  /// The number of iterations; nothing if it is only known at run time. The largest number if nothing ends the loop.
  std::optional<int64_t> iterations() const;
  /// Elements that one iteration moves: parts of scanned and stacked tensors, and results of operations that compute
  /// nothing. Budgets count them, since the number of iterations is unlimited.
  int64_t movedElements() const;

  mlir::Operation* op = nullptr;
  mlir::func::FuncOp body;
  llvm::SmallVector<mlir::func::FuncOp> bodies;  ///< its own body, and the bodies of nested loops, each once
  bool has_trip_count = false, has_condition = false;
  int64_t most = -1;  ///< bound on the iterations; -1: none
  unsigned carried = 0, captured = 0;
  llvm::SmallVector<bool> scanned, stacked;  ///< one for each tensor: whether it is reversed
  llvm::SmallVector<int64_t> weights;        ///< for the body's last arguments: positions among the model's weights

  unsigned firstCarried() const { return (has_trip_count ? 1u : 0u) + (has_condition ? 1u : 0u); }
  unsigned firstScanned() const { return firstCarried() + carried; }
  unsigned firstCaptured() const { return firstScanned() + static_cast<unsigned>(scanned.size()); }
  llvm::ArrayRef<mlir::Type> typesOfWeights() const;

  /// The part of a tensor with `most` parts that belongs to an iteration.
  int64_t partOf(int64_t iteration, bool reversed) const { return reversed ? most - 1 - iteration : iteration; }
};

}  // namespace tessera::compiler::interpreter
