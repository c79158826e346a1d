#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/plan/buffer_plan.h"
#include "compiler/ir/imported_model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera::compiler {

/// How the steps of a plan update a growing state: by one concatenation of the input with new rows.
struct StateSteps {
  int state = 0;       ///< position in the list of states
  int concat = 0;      ///< position of the concatenation's step
  OutlinedGroup rows;  ///< computes only the new rows
  mlir::RankedTensorType rows_type;
  int source = -1;  ///< argument of `rows` with the same rows as its result; -1: none
  /// Positions of steps that copy the state's output and write zeros after its last row.
  llvm::SmallVector<int> identities;
};

/// Finds the steps that update a state, or says why a run with the state has to move all of it. `extents`: the values
/// of model.extents, in order. The state has a growing dimension.
class StateStepFinder {
 public:
  StateStepFinder(const ImportedModel& model, mlir::func::FuncOp main, llvm::ArrayRef<PendingStep> steps,
                  llvm::ArrayRef<mlir::Value> extents)
      : model_(model), main_(main), steps_(steps), extents_(extents) {}

  std::optional<StateSteps> find(const v1::State& state, int index, std::string& why_not) const;

 private:
  /// The two values of main that a state consists of, and the sizes that bound them.
  struct Pair {
    int dim = 0;
    mlir::Value past, present;
    mlir::Value rows_before, rows_after;  // i64: rows of the input, rows of the output
    int64_t most_before = 0, most_after = 0;
  };
  std::optional<Pair> pairOf(const v1::State& state, std::string& why_not) const;
  int stepThatWrites(mlir::Value value) const;
  bool isIdentity(const PendingStep& step, const Pair& pair) const;
  /// Whether a value of a step's function, one i1 for each row, says which rows the output has.
  bool marksRows(mlir::Value mask, llvm::ArrayRef<mlir::Value> arguments, const Pair& pair) const;

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  llvm::ArrayRef<PendingStep> steps_;
  llvm::ArrayRef<mlir::Value> extents_;
};

}  // namespace tessera::compiler
