#pragma once

#include <functional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/interpreter/body.h"
#include "compiler/interpreter/structured.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

/// What a module means, computed in the most plain way there is: the oracle that every step of the compiler is held
/// against. Shares no code with any of them.
namespace tessera::compiler::interpreter {

/// Results of operations by what they compute and the content of their operands, so that the interpretation of a
/// module that differs from an earlier one in a few places costs those places. One for each MLIR context.
class ResultCache {
 public:
  const std::vector<Array>* find(uint64_t key);
  void keep(uint64_t key, std::vector<Array> results);
  /// Forgets what was not asked for since the last but one call.
  void age();

 private:
  struct Entry {
    std::vector<Array> results;
    int age = 0;
  };
  std::unordered_map<uint64_t, Entry> entries_;
};

struct Options {
  /// Operations left, those of bodies counted at every point, and in loops of the model elements that are moved; null:
  /// any number.
  int64_t* budget = nullptr;
  ResultCache* cache = nullptr;
  /// Sees every array that an operation of the function computes. Of a loop of the model, its results.
  std::function<void(mlir::Operation*, unsigned result, const Array&)> observe = nullptr;
  /// Gives the model's weights that bodies of loops name by their positions.
  std::function<absl::StatusOr<Array>(int64_t index, mlir::RankedTensorType type)> weight = nullptr;
};

/// Runs a function of one block on tensors (then the results are returned) or buffers (which are written to).
/// Knows linalg, tensor, arith, math, scf loops and conditions, loops of the model, and memref; shapes are static.
/// Errors: UNIMPLEMENTED for another operation, RESOURCE_EXHAUSTED beyond the budget, OUT_OF_RANGE for an access
/// outside of a tensor, FAILED_PRECONDITION where rounding decides how often a loop runs; the message names the
/// operation and its place in the model.
absl::StatusOr<std::vector<Array>> interpret(mlir::func::FuncOp func, std::vector<Array> arguments,
                                             const Options& options = {});

/// Operations that interpreting it takes, as budgets count them. Loops of the model count as often as they run where
/// constants say it, all others once.
int64_t operationsOf(mlir::func::FuncOp func);

/// The names of the model's nodes in a location: "conv1, relu1"; empty where there are none.
std::string placeOf(mlir::Location location);

}  // namespace tessera::compiler::interpreter
