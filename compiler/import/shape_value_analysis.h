#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/constant.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/IR/Value.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Analyses shape values: integers of @main that depend on the sizes of ranges and on nothing else, such as an
/// exporter's Shape, Gather, Concat before a Reshape. A shape value is known by examples: its values at several sizes
/// of each range. The first example has all ranges at their bounds.
class ShapeValueAnalysis {
 public:
  /// Adds a range. `count` is the argument of @main with its size, at most `most`; `dimension` its position in
  /// ImportedModel.dimensions.
  void addRange(int dimension, mlir::Value count, int64_t most) { ranges_.push_back({dimension, count, most}); }

  /// Adds an extent of @main of at most `most`. Unless it is computed from known extents, it counts as decided by the
  /// data. Returns the first extent with an equal computation, which may be `count` itself: exporters compute the
  /// number of rows that a mask selects again for each tensor.
  mlir::Value addExtent(mlir::Value count, int64_t most);

  /// Returns the values of `value`, of @main, at each example. Null if anything but sizes of ranges decides it, or if
  /// there is no range.
  const std::vector<ConstantPtr>* examplesOf(mlir::Value value, v1::DataType type);

  /// Like examplesOf(), but `value` may also depend on extents that the data decide. The examples vary these like
  /// ranges, with 0 as the least size instead of 1.
  const std::vector<ConstantPtr>* examplesWithDataOf(mlir::Value value, v1::DataType type);

  /// Returns the value of an extent if it is the same in every run, including runs in which data-decided extents are 0.
  /// For example, the extent of a slice that takes the last element alone.
  std::optional<int64_t> constantValueOf(mlir::Value extent);

  /// Whether only sizes of ranges and constants decide `value`, of @main. It may have no examples nevertheless, if
  /// evaluating it takes too long or is not possible at import.
  bool dependsOnRangesOnly(mlir::Value value) const { return !ranges_.empty() && dependenciesOf(value).has_value(); }

  /// Whether two extents (tensor<i64>) are equal: the same value, or equal at every example.
  bool same(mlir::Value a, mlir::Value b);

  /// If two extents are equal only for multiples of some number, as in a model that cuts windows without padding,
  /// restricts the examples to such sizes; runs with other sizes are refused, for `reason` followed by the number.
  /// Returns whether the extents are equal then.
  bool restrictToEqual(mlir::Value a, mlir::Value b, const std::string& reason);
  const std::vector<v1::RefusedSizes>& refused() const { return refused_; }

  /// Omits sizes of a range below `least` from later examples, for callers that refuse runs with sizes from
  /// `refused_from` to `least` - 1. Does nothing if sizes below `refused_from` are not refused yet.
  void raiseLeast(int dimension, int64_t refused_from, int64_t least);

 private:
  struct RangeOf {
    int dimension;
    mlir::Value count;
    int64_t most;
    int64_t multiple = 1;  ///< every size is a multiple of it
    int64_t least = 1;     ///< in multiples
  };
  using Ranges = std::vector<RangeOf>;
  static std::vector<std::vector<int64_t>> examples(const Ranges& ranges);
  /// Returns the operations that `value` depends on, in no order. Nothing if they read an argument that is no size of a
  /// range. With `data_extents`, the search also ends at extents that the data decide, and appends them.
  std::optional<std::vector<mlir::Operation*>> dependenciesOf(mlir::Value value, Ranges* data_extents = nullptr) const;
  static std::optional<std::vector<ConstantPtr>> evaluated(mlir::Value value, v1::DataType type,
                                                           std::vector<mlir::Operation*> operations,
                                                           const Ranges& ranges,
                                                           const std::vector<std::vector<int64_t>>& examples);
  /// Returns the ranges and data-decided extents that `value` depends on. Nothing if it depends on anything else, or on
  /// no data.
  std::optional<Ranges> rangesAndDataExtentsOf(mlir::Value value) const;
  /// Returns the least number m such that two extents are equal at every size of range `r` that is a multiple of m,
  /// with the other ranges unrestricted. Nothing if there is none within the range.
  std::optional<int64_t> commonMultiple(size_t r, mlir::Value a, mlir::Value b) const;

  using Known = llvm::DenseMap<mlir::Value, std::optional<std::vector<ConstantPtr>>>;
  Ranges ranges_;
  llvm::MapVector<mlir::Value, int64_t> data_extents_;  ///< data-decided extents, and their bounds
  llvm::DenseMap<mlir::Value, mlir::Value> extents_;    ///< every added extent, and the first one with an equal
                                                        ///< computation
  Known known_, known_by_data_;
  std::vector<v1::RefusedSizes> refused_;
};

}  // namespace tessera::compiler
