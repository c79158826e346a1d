#pragma once

#include <optional>
#include <vector>

#include "compiler/import/constant.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Value.h"

namespace tessera::compiler {

/// Integers that follow the counts of ranges and nothing else, such as an exporter's Shape, Gather, Concat before a
/// Reshape. They are known by example: what they are at a number of sizes of each range, the greatest of all first.
class FollowedValues {
 public:
  /// `count` is the argument of @main that says how much of a range counts, at most `most`.
  void addRange(mlir::Value count, int64_t most) { ranges_.push_back({count, most}); }

  /// What `value`, of @main, is at each of the examples; null when something else decides it, or there is no range.
  const std::vector<ConstantPtr>* examplesOf(mlir::Value value, v1::DataType type);

  /// Whether counts of ranges and constants alone decide `value`, of @main. There may be no examples all the same: of
  /// what takes too long, or cannot be computed at import.
  bool byCountsAlone(mlir::Value value) const { return !ranges_.empty() && operationsBehind(value).has_value(); }

  /// Whether two extents (tensor<i64>) are one: the same value, or equal at every example.
  bool same(mlir::Value a, mlir::Value b);

 private:
  struct RangeOf {
    mlir::Value count;
    int64_t most;
  };
  std::vector<std::vector<int64_t>> examples() const;
  /// The operations that decide `value`, in no order; nothing when an argument other than a count is among what they
  /// read.
  std::optional<std::vector<mlir::Operation*>> operationsBehind(mlir::Value value) const;
  std::optional<std::vector<ConstantPtr>> evaluated(mlir::Value value, v1::DataType type) const;

  std::vector<RangeOf> ranges_;
  llvm::DenseMap<mlir::Value, std::optional<std::vector<ConstantPtr>>> known_;
};

}  // namespace tessera::compiler
