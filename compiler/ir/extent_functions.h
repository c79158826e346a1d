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

/// A term that depends on several ranges: times / parts, times a non-negative function of each range's size.
struct RangeTerm {
  int64_t times = 1, parts = 1;
  std::map<int, std::vector<int64_t>> factors;
  bool operator==(const RangeTerm&) const = default;
};

/// An integer at every size of one range, or an upper bound of it at the sizes of several.
struct ExtentFunction {
  int dimension = -1;       ///< position in ImportedModel.dimensions; negative: a constant, the only element of `at`
  std::vector<int64_t> at;  ///< by the size, from 0 to the bound; empty: the size itself, for a range of any length
  std::vector<RangeTerm> sum = {};  ///< for several ranges: the sum of these is an upper bound; `dimension` is unset
  bool is_exact = true;             ///< the value, not only an upper bound
};

/// Integers of a function as functions of the sizes of ranges: extents, as the importer computes them.
class ExtentFunctions {
 public:
  /// Longer ranges are supported only for values equal to the size itself.
  static constexpr int64_t kLongest = 8192;
  /// Later dimensions are not analysed.
  static constexpr int kMaxDimensions = 31;

  /// Sizes above `upto` are not evaluated.
  ExtentFunctions(const ImportedModel& model, mlir::func::FuncOp main, int64_t upto = INT64_MAX);

  int64_t most(int dimension) const { return -model_.dimensions[static_cast<size_t>(dimension)].size(); }
  bool isRange(int dimension) const { return model_.dimensions[static_cast<size_t>(dimension)].size() < -1; }
  int dimensions() const { return std::min(static_cast<int>(model_.dimensions.size()), kMaxDimensions); }

  /// Returns the series of an integer of a body, or of a one-element tensor; nothing if anything else decides it.
  std::optional<ExtentFunction> of(mlir::Value value) { return of(value, kAll); }
  /// Returns an upper bound of an integer of a body, in any iteration and for any tensor contents, such as a position
  /// that is clamped below an extent. Nothing if no bound is found.
  std::optional<ExtentFunction> greatest(mlir::Value value);

 private:
  /// For values that are equal for all elements.
  static constexpr int64_t kAll = -1;
  /// Returns the series of one element of a tensor, or of a value of the body that computes that element. Shapes are
  /// such tensors.
  std::optional<ExtentFunction> of(mlir::Value value, int64_t element);
  std::optional<ExtentFunction> computed(mlir::Value value, int64_t element);
  std::optional<ExtentFunction> ofArgument(mlir::BlockArgument argument, int64_t element);
  std::optional<ExtentFunction> ofSlice(mlir::Operation* op, int64_t element);
  std::optional<ExtentFunction> ofSelect(mlir::Operation* op, int64_t element);

  const ImportedModel& model_;
  const int64_t upto_;
  llvm::DenseMap<mlir::Value, int> counts_;  // arguments of main that hold the sizes of ranges
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, std::optional<ExtentFunction>> known_;
};

}  // namespace tessera::compiler
