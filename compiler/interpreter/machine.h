#pragma once

#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/model_loop.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::compiler::interpreter {

/// The values of a running function, and the rules for operations on whole tensors.
class Machine {
 public:
  explicit Machine(const Options& options);

  void set(mlir::Value value, Array array) { arrays_[value] = std::move(array); }
  void set(mlir::Value value, const Scalar& scalar) { scalars_[value] = scalar; }
  const Array& array(mlir::Value value) const { return arrays_.at(value); }
  Scalar scalar(mlir::Value value) const { return scalars_.at(value); }

  /// Runs the operations of a block except its terminator, and drops values after their last use.
  absl::Status run(mlir::Block& block);
  /// Returns the value; moves it out if `op` is its last user, so that its elements may be overwritten in place.
  Array take(mlir::Value value, mlir::Operation* op);
  /// The operands of the terminator of a block that has run.
  std::vector<Array> takeResults(mlir::Block& block);
  /// Takes operations from the budget; RESOURCE_EXHAUSTED if it does not suffice.
  absl::Status charge(int64_t operations);
  /// Options for the body of a loop of the model: the same budget, without cache and observer.
  Options optionsOfBodies() const;
  /// A weight that the body of a loop names, in the type of its argument.
  absl::StatusOr<Array> weight(int64_t index, mlir::RankedTensorType type) const;

  int64_t index(mlir::OpFoldResult value) const;
  Extents indices(llvm::ArrayRef<mlir::OpFoldResult> values) const;

 private:
  bool isReady(mlir::Operation* op) const;
  absl::Status runOne(mlir::Operation* op);
  absl::Status runStructuredOp(mlir::linalg::LinalgOp op);
  absl::Status runLinalg(mlir::linalg::LinalgOp op);
  absl::Status runModelLoop(mlir::Operation* op);
  /// Takes the results of an equal operation on equal operands from the cache; otherwise runs the operation and stores
  /// them.
  absl::Status runCached(mlir::Operation* op, uint64_t key, llvm::function_ref<absl::Status()> run);
  absl::Status runScalar(mlir::Operation* op);
  absl::Status runFor(mlir::Operation* op);
  absl::Status runIf(mlir::Operation* op);
  absl::Status runWhile(mlir::Operation* op);
  absl::Status yieldTo(mlir::Operation* terminator, mlir::ValueRange targets);
  void move(mlir::Value from, mlir::Value to, mlir::Operation* op);
  Surroundings surroundings() const;
  const llvm::SmallVector<mlir::Value>& diesAt(mlir::Operation* op);
  void findLastUses(mlir::Block& block);

  const Options& options_;
  int64_t unbounded_ = int64_t{1} << 62;
  int64_t& budget_;
  llvm::DenseMap<mlir::Value, Array> arrays_;
  llvm::DenseMap<mlir::Value, Scalar> scalars_;
  llvm::DenseMap<mlir::Block*, bool> analyzed_;
  llvm::DenseMap<mlir::Operation*, llvm::SmallVector<mlir::Value>> dies_;
};

/// The elements of a constant.
Array constantArray(mlir::DenseElementsAttr dense);

/// Rules for operations that move elements between tensors; returns false for any other operation.
absl::StatusOr<bool> runTensorOp(Machine& machine, mlir::Operation* op);
/// The same for buffers.
absl::StatusOr<bool> runBufferOp(Machine& machine, mlir::Operation* op);

}  // namespace tessera::compiler::interpreter
