#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/constant.h"
#include "llvm/ADT/DenseMap.h"
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

  /// What `value`, of @main, is at each of the examples; null when something else decides it, or there is no range.
  const std::vector<ConstantPtr>* examplesOf(mlir::Value value, v1::DataType type);

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
  };
  std::vector<std::vector<int64_t>> examples() const;
  /// The operations that decide `value`, in no order; nothing when an argument other than a count is among what they
  /// read.
  std::optional<std::vector<mlir::Operation*>> operationsBehind(mlir::Value value) const;
  std::optional<std::vector<ConstantPtr>> evaluated(mlir::Value value, v1::DataType type,
                                                    const std::vector<std::vector<int64_t>>& examples) const;
  /// The least number of whose multiples, as sizes of range `r` alone, two extents are the same; nothing when there is
  /// none within the range.
  std::optional<int64_t> multipleOf(size_t r, mlir::Value a, mlir::Value b) const;

  std::vector<RangeOf> ranges_;
  llvm::DenseMap<mlir::Value, std::optional<std::vector<ConstantPtr>>> known_;
  std::vector<v1::RefusedSizes> refused_;
};

}  // namespace tessera::compiler
