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

/// Interprets a module in the simplest possible way: the oracle for every step of the compiler. Shares no code with
/// those steps.
namespace tessera::compiler::interpreter {

/// Results of operations, keyed by the computation and the content of the operands, so that interpreting a module that
/// differs slightly from an earlier one costs only the differences. Use one cache per MLIR context. Not thread-safe.
class ResultCache {
 public:
  const std::vector<Array>* find(uint64_t key);
  void keep(uint64_t key, std::vector<Array> results);
  /// Drops entries that were not used since the call before the last one.
  void age();

 private:
  struct Entry {
    std::vector<Array> results;
    int age = 0;
  };
  std::unordered_map<uint64_t, Entry> entries_;
};

struct Options {
  /// Remaining operations: operations of bodies count once per point; loops of the model also count moved elements.
  /// Null: unlimited.
  int64_t* budget = nullptr;
  ResultCache* cache = nullptr;
  /// Called with every array that an operation of the function computes; for a loop of the model, with its results.
  std::function<void(mlir::Operation*, unsigned result, const Array&)> observe = nullptr;
  /// Returns the model's weights, which bodies of loops refer to by position.
  std::function<absl::StatusOr<Array>(int64_t index, mlir::RankedTensorType type)> weight = nullptr;
};

/// Runs a function of one block on tensors (whose results are returned) or buffers (which are written). Supports
/// linalg, tensor, arith, math, scf loops and conditions, loops of the model, and memref; shapes must be static.
/// Errors: UNIMPLEMENTED for other operations, RESOURCE_EXHAUSTED beyond the budget, OUT_OF_RANGE for an access outside
/// of a tensor, FAILED_PRECONDITION if a loop's trip count depends on rounding; the message names the operation and its
/// place in the model.
absl::StatusOr<std::vector<Array>> interpret(mlir::func::FuncOp func, std::vector<Array> arguments,
                                             const Options& options = {});

/// Operations that interpreting the function takes, in the unit of budgets. Loops of the model count with their trip
/// count if it is constant, all others once.
int64_t operationsOf(mlir::func::FuncOp func);

/// The names of the model's nodes in a location: "conv1, relu1"; empty where there are none.
std::string placeOf(mlir::Location location);

}  // namespace tessera::compiler::interpreter
