#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A number that follows several ranges: times / parts, and of each range a number of at least 0 by its count.
struct RangeProduct {
  int64_t times = 1, parts = 1;
  std::map<int, std::vector<int64_t>> factors;
  bool operator==(const RangeProduct&) const = default;
};

/// What an integer is for every count of one range, or at most for those of several.
struct Series {
  int dimension = -1;       ///< position in ImportedModel.dimensions; negative: a constant, `at` has it alone
  std::vector<int64_t> at;  ///< by the count, 0 to the greatest; empty: the count itself, of a range of any length
  std::vector<RangeProduct> sum = {};  ///< where several ranges decide: at most the sum of these; no dimension then
  bool is_exact = true;                ///< not less, either
};

/// Numbers of a function that follow the counts of ranges: extents, as import computes them.
class ExtentSeries {
 public:
  /// Longer ranges are followed where the count itself is meant alone.
  static constexpr int64_t kLongest = 8192;
  /// Of more dimensions those behind these are not followed.
  static constexpr int kMostDimensions = 31;

  /// Counts above `upto` are not looked at.
  ExtentSeries(const ImportedModel& model, mlir::func::FuncOp main, int64_t upto = INT64_MAX);

  int64_t most(int dimension) const { return -model_.dimensions[static_cast<size_t>(dimension)].size(); }
  bool isRange(int dimension) const { return model_.dimensions[static_cast<size_t>(dimension)].size() < -1; }
  int dimensions() const { return std::min(static_cast<int>(model_.dimensions.size()), kMostDimensions); }

  /// Of an integer of a body, or of a tensor of one; nothing when something else decides it.
  std::optional<Series> of(mlir::Value value) { return of(value, kAll); }
  /// What an integer of a body is at most, in any iteration and whatever tensors hold, such as a position that is held
  /// in front of an extent; nothing when that is not seen.
  std::optional<Series> greatest(mlir::Value value);

 private:
  /// Of a value that is the same for every element of what computes it.
  static constexpr int64_t kAll = -1;
  /// Of one element of a tensor, or of a value of the body that computes that element; shapes are such tensors.
  std::optional<Series> of(mlir::Value value, int64_t element);
  std::optional<Series> computed(mlir::Value value, int64_t element);
  std::optional<Series> ofArgument(mlir::BlockArgument argument, int64_t element);
  std::optional<Series> ofSlice(mlir::Operation* op, int64_t element);
  std::optional<Series> ofSelect(mlir::Operation* op, int64_t element);

  const ImportedModel& model_;
  const int64_t upto_;
  llvm::DenseMap<mlir::Value, int> counts_;  // arguments of main that say how much of a range there is
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, std::optional<Series>> known_;
};

}  // namespace tessera::compiler
