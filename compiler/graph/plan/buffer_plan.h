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

/// Where bytes live. Several values share one: views, and results written over dead operands.
struct Storage {
  v1::Buffer::Kind kind = v1::Buffer::ARENA;
  int index = 0;          // input or output position, or position in prepared weights, or place in the arena
  int64_t offset = 0;     // weights and arena
  int parent = -1;        // arena: the storage this one is a part of; offset is then relative to it
  Lifetime lifetime{};    // arena
  v1::TensorSpec spec{};  // of the value that made it
};

/// A step before it has buffers: the function it runs, and what it makes.
struct PendingStep {
  OutlinedGroup outlined;
  llvm::SmallVector<mlir::Value> results;  ///< empty: copies its only argument to model output `copies_to`
  int copies_to = -1;
  std::string name;
  LoopOp loop = {};  ///< then the step is all of a loop: `outlined` has its operands as arguments, and no function
};

/// Which bytes each value of a model's main function lives in: its inputs, weights, outputs, and one arena for what
/// lies between steps. Called in the order of its methods.
class BufferPlan {
 public:
  BufferPlan(const ImportedModel& model, mlir::func::FuncOp main, const Chip& chip)
      : model_(model), main_(main), chip_(chip) {}

  /// Places inputs, and each weight that is read once. Returns the bytes of all weights.
  int64_t placeArguments(std::vector<PlannedGraph::PlacedWeight>& weights);
  /// Has `root` written straight to a model output; false where it goes to another one already.
  bool writeToOutput(mlir::Value root, int output) { return output_of_.try_emplace(root, output).second; }
  /// Where parts lie one after the other in the result, whoever computes a part can write it there and the
  /// concatenation needs no step.
  bool placeConcat(mlir::tensor::ConcatOp concat);
  /// What is live how long; `extents` are read behind the last step.
  void findLastUses(llvm::ArrayRef<PendingStep> steps, llvm::ArrayRef<mlir::Value> extents);
  /// Gives the results of a step their bytes; steps in order. Notes in its function what the result is written over,
  /// where that asks something of code generation.
  void assignResults(const PendingStep& pending, int step);
  /// Bytes of the arena that a step alone needs.
  int reserve(int64_t bytes, int step);
  /// The storage of an output that a step copies to.
  int copyTarget(int output);
  /// Lays out the arena and puts its figures and decisions into the plan.
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
  std::vector<v1::Decision> decisions_;  ///< what products are written over
  std::vector<Storage> storages_;
  llvm::DenseMap<mlir::Value, int> storage_of_;  ///< by root value
  llvm::DenseMap<mlir::Value, int> output_of_;   ///< roots written straight to a model output
  llvm::DenseMap<mlir::Value, int> last_use_;    ///< by root value
  llvm::DenseMap<mlir::Value, Place> part_of_;   ///< roots written straight into a concatenation's result
  int64_t sum_intermediate_bytes_ = 0;
};

}  // namespace tessera::compiler
