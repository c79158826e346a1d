#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/plan/outline.h"
#include "compiler/ir/arena.h"
#include "compiler/ir/loop_op.h"
#include "compiler/target/chip.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// The location of some bytes. Several values may share one: views, and results that overwrite dead operands.
struct Storage {
  v1::Buffer::Kind kind = v1::Buffer::ARENA;
  int index = 0;          // position among inputs, outputs, prepared weights, or in the arena
  int64_t offset = 0;     // weights and arena
  int parent = -1;        // arena: the storage that contains this one, to which `offset` is then relative
  Lifetime lifetime{};    // arena
  v1::TensorSpec spec{};  // of the value that defined it
};

/// A step without buffers yet: the function that it runs, and its results.
struct PendingStep {
  OutlinedGroup outlined;
  llvm::SmallVector<mlir::Value> results;  ///< empty: copies its only argument to model output `copies_to`
  int copies_to = -1;
  std::string name;
  mlir::RankedTensorType rows = {};  ///< if set, the step computes new rows of a state, for step `rows_for`
  int rows_for = -1;
  int rows_from = -1;  ///< argument with the same rows as the result; -1: none
  LoopOp loop = {};    ///< if set, the step is a whole loop: `outlined` has its operands as arguments, and no function
};

/// Assigns bytes to each value of a model's main function: inputs, weights, outputs, and one arena for values between
/// steps. Methods must be called in the order of their declaration.
class BufferPlan {
 public:
  BufferPlan(const ImportedModel& model, mlir::func::FuncOp main, const Chip& chip)
      : model_(model), main_(main), chip_(chip) {}

  /// Places inputs, and each used weight. Returns the bytes of all weights.
  int64_t placeArguments(std::vector<PlannedGraph::PlacedWeight>& weights);
  /// Lets `root` be written straight to a model output. Returns false if it already goes to another one.
  bool writeToOutput(mlir::Value root, int output) { return output_of_.try_emplace(root, output).second; }
  /// If the parts of a concatenation are contiguous in the result, places them there, so that their producers write
  /// them and the concatenation needs no step. Returns whether it did.
  bool placeConcat(mlir::tensor::ConcatOp concat);
  /// Computes lifetimes. `extents` are read after the last step.
  void findLastUses(llvm::ArrayRef<PendingStep> steps, llvm::ArrayRef<mlir::Value> extents);
  /// Assigns bytes to the results of a step; call for the steps in order. Marks in the step's function a result that
  /// overwrites an operand if code generation must take care.
  void assignResults(const PendingStep& pending, int step);
  /// Reserves arena bytes that only the steps from `first` to `last` use.
  int reserve(int64_t bytes, int first, int last);
  /// Returns the storage of an output that a step copies to.
  int copyTarget(int output);
  /// Packs the arena and adds its figures and decisions to the plan.
  void planArena(v1::Plan& plan);

  bool has(mlir::Value root) const { return storage_of_.contains(root); }
  int storageOf(mlir::Value root) const { return storage_of_.lookup(root); }
  const Storage& storage(int index) const { return storages_[index]; }

 private:
  struct Place {
    mlir::Value whole;
    int64_t offset = 0;  ///< bytes
  };

  int newStorage(Storage storage);
  int storageOfPart(mlir::Value part, int step);
  int storageInPlace(const PendingStep& pending, int step) const;
  int storageOfAddend(const PendingStep& pending, int step);

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  const Chip& chip_;
  std::vector<v1::Decision> decisions_;  ///< about products that overwrite an operand
  std::vector<Storage> storages_;
  llvm::DenseMap<mlir::Value, int> storage_of_;  ///< by root value
  llvm::DenseMap<mlir::Value, int> output_of_;   ///< roots written straight to a model output
  llvm::DenseMap<mlir::Value, int> last_use_;    ///< by root value
  llvm::DenseMap<mlir::Value, Place> part_of_;   ///< roots written straight into a concatenation's result
  int64_t sum_intermediate_bytes_ = 0;
};

}  // namespace tessera::compiler
