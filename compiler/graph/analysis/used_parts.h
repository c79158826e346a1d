#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/analysis/used_rows.h"
#include "compiler/ir/extent_functions.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

using UsedRowsList = llvm::SmallVector<UsedRows, 1>;

/// The iterations of a loop, or the indices of a tensor's dimension, that a run needs (UsedRows): iteration i is needed
/// if row (i / iterations_per_row) mod rows.count is needed.
struct UsedPart {
  int64_t position = 0;  ///< of the loop or dimension
  int64_t iterations_per_row = 1;
  UsedRows rows;  ///< without a stride
};
using UsedParts = llvm::SmallVector<UsedPart, 2>;

/// Returns the number of elements between neighbouring indices of dimension `dim`, in row-major order.
int64_t elementStride(mlir::RankedTensorType type, int64_t dim);

/// Computes the parts of loops and tensors that a run needs, as functions of the sizes of the model's ranges. A
/// computed part may be larger than necessary, never smaller.
class UsedPartBuilder {
 public:
  explicit UsedPartBuilder(const ExtentFunctions& series) : series_(series) {}

  /// Makes `UsedRows` with `count` rows and stride 1 for one range: a run in which range `dimension` has size n needs
  /// the first of(n) rows, clamped to [0, count]. Returns nothing if every run needs all rows, or if the range is too
  /// long for a table (ExtentFunctions::kLongest).
  std::optional<UsedRows> rowsBySize(int dimension, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const;
  /// Makes `UsedRows` with `count` rows. The number of rows that a run needs is the value of `series` at the run's
  /// sizes; for several ranges it is an upper bound (UsedRows::slack). Returns nothing if no useful bound exists.
  std::optional<UsedRows> rowsByExtent(const ExtentFunction& series, int64_t count) const;
  /// Makes `UsedRows` with `count` rows for a tensor of which every run needs exactly the first `first` rows. Returns
  /// nothing if these are all rows.
  static std::optional<UsedRows> firstRowsOfEveryRun(int64_t count, int64_t first);
  /// Translates `rows` of one tensor into `count` rows of another, such as rows of a result into rows of an operand: if
  /// the first r of `rows` are needed, the first of(r) of the others are. `of` is monotonic.
  std::optional<UsedRows> translated(const UsedRows& rows, int64_t count,
                                     llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether unionOf() can describe the union of both as one `UsedRows`: they have the same stride and count, and the
  /// same ranges unless one depends on no range.
  static bool haveUnion(const UsedRows& a, const UsedRows& b) {
    return a.stride == b.stride && a.count == b.count && (a.ranges == b.ranges || a.ranges == 0 || b.ranges == 0);
  }
  /// Returns the union of two `UsedRows` that have one (haveUnion); nothing if it is all rows.
  std::optional<UsedRows> unionOf(const UsedRows& a, const UsedRows& b) const;
  /// Each argument is an intersection: the iterations that all of its parts need. Returns parts whose intersection
  /// contains both sets.
  UsedParts unionOf(llvm::ArrayRef<UsedPart> a, llvm::ArrayRef<UsedPart> b) const;
  /// Adds the bound `rows` to `entries`, whose bounds hold together. If an entry has the same ranges, stride and count,
  /// it becomes the smaller one of both bounds.
  void addBound(UsedRowsList& entries, UsedRows rows) const;

  /// Translates `UsedRows` of a tensor into parts of its dimensions, rounded up to whole indices. Rows that are no part
  /// of one dimension are left out, which leaves a larger set of elements.
  UsedParts partsOf(mlir::RankedTensorType type, llvm::ArrayRef<UsedRows> entries) const;
  std::optional<UsedPart> partOf(mlir::RankedTensorType type, const UsedRows& rows) const;
  /// Adds to `entries` the rows of dimension `dim`, whose indices are exactly the iterations of `part`.
  void addPart(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, const UsedPart& part) const;
  /// Adds the rows of dimension `dim` that loops of `extents` read at `expression`, in iterations that all `parts`
  /// need. Of windows, these are the rows up to the end of the last one.
  void addAlong(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, mlir::AffineExpr expression,
                llvm::ArrayRef<UsedPart> parts, llvm::ArrayRef<int64_t> extents) const;
  /// Adds the first indices of dimension `dim`: of(r) of them if `part` needs its first r rows.
  void addTranslated(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, const UsedPart& part,
                     llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether the part is a prefix of `extent` iterations.
  static bool isPrefix(const UsedPart& part, int64_t extent) {
    return part.iterations_per_row == 1 && part.rows.count == extent;
  }

 private:
  std::optional<UsedRows> combined(const UsedRows& a, const UsedRows& b, bool greatest) const;
  std::optional<UsedRows> bySum(const ExtentFunction& series, int64_t count) const;
  int64_t most(uint32_t ranges) const;

  const ExtentFunctions& series_;
};

}  // namespace tessera::compiler
