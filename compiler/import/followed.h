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

/// Integers that follow the counts of ranges and nothing else, such as an exporter's Shape, Gather, Concat before a
/// Reshape. They are known by example: what they are at a number of sizes of each range, the greatest of all first.
class FollowedValues {
 public:
  /// `count` is the argument of @main that says how much of a range counts, at most `most`; `dimension` the position of
  /// the range in ImportedModel.dimensions.
  void addRange(int dimension, mlir::Value count, int64_t most) { ranges_.push_back({dimension, count, most}); }

  /// `count`, of @main, is how much of a dimension of at most `most` counts. Unless it is computed from counts that are
  /// known, the data decide it. Answers the first count that is computed alike, which may be `count`: exporters look
  /// for the rows of a mask once for each tensor that they pick them from.
  mlir::Value addExtent(mlir::Value count, int64_t most);

  /// What `value`, of @main, is at each of the examples; null when something else decides it, or there is no range.
  const std::vector<ConstantPtr>* examplesOf(mlir::Value value, v1::DataType type);

  /// The same where counts that the data decide are among what decides it: they are tried as ranges from 0 on.
  const std::vector<ConstantPtr>* examplesByDataOf(mlir::Value value, v1::DataType type);

  /// The one number that an extent is in every run, of nothing too: of a dimension that is cut to its last element,
  /// say.
  std::optional<int64_t> alwaysOf(mlir::Value extent);

  /// Whether counts of ranges and constants alone decide `value`, of @main. There may be no examples all the same: of
  /// what takes too long, or cannot be computed at import.
  bool byCountsAlone(mlir::Value value) const { return !ranges_.empty() && operationsBehind(value).has_value(); }

  /// Whether two extents (tensor<i64>) are one: the same value, or equal at every example.
  bool same(mlir::Value a, mlir::Value b);

  /// Where two extents are one for multiples of some number only, as those are that a model cuts in windows without
  /// padding them: from now on such sizes alone are examples, others are refused, for `reason` with the number behind.
  /// Answers whether the extents are one then.
  bool restrictToSame(mlir::Value a, mlir::Value b, const std::string& reason);
  const std::vector<v1::RefusedSizes>& refused() const { return refused_; }

 private:
  struct RangeOf {
    int dimension;
    mlir::Value count;
    int64_t most;
    int64_t multiple = 1;  ///< of which every size is one
    int64_t least = 1;
  };
  using Ranges = std::vector<RangeOf>;
  static std::vector<std::vector<int64_t>> examples(const Ranges& ranges);
  /// The operations that decide `value`, in no order; nothing when an argument other than a count is among what they
  /// read. With `by_data` they end at counts that the data decide, which are appended there.
  std::optional<std::vector<mlir::Operation*>> operationsBehind(mlir::Value value, Ranges* by_data = nullptr) const;
  static std::optional<std::vector<ConstantPtr>> evaluated(mlir::Value value, v1::DataType type,
                                                           std::vector<mlir::Operation*> operations,
                                                           const Ranges& ranges,
                                                           const std::vector<std::vector<int64_t>>& examples);
  /// All ranges and the counts of the data behind `value`; nothing when it is no function of these, or of no data.
  std::optional<Ranges> rangesByData(mlir::Value value) const;
  /// The least number of whose multiples, as sizes of range `r` alone, two extents are the same; nothing when there is
  /// none within the range.
  std::optional<int64_t> multipleOf(size_t r, mlir::Value a, mlir::Value b) const;

  using Known = llvm::DenseMap<mlir::Value, std::optional<std::vector<ConstantPtr>>>;
  Ranges ranges_;
  llvm::MapVector<mlir::Value, int64_t> by_data_;     ///< counts that the data decide, and their bounds
  llvm::DenseMap<mlir::Value, mlir::Value> extents_;  ///< all that were added, and the first that is computed alike
  Known known_, known_by_data_;
  std::vector<v1::RefusedSizes> refused_;
};

}  // namespace tessera::compiler
