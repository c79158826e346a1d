#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/analysis/used_rows.h"
#include "compiler/ir/extent_functions.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

using UsedRowsList = llvm::SmallVector<Rows, 1>;

/// The needed iterations of a loop, or indices of a dimension: iteration i is needed if row i / per mod rows.count is
/// needed.
struct Part {
  int64_t place = 0;  ///< position of the loop or dimension
  int64_t per = 1;
  Rows rows;  ///< without a stride
};
using Parts = llvm::SmallVector<Part, 2>;

/// Returns the elements of one step along dimension `dim`.
int64_t elementsBelow(mlir::RankedTensorType type, int64_t dim);

/// Computes the needed parts of loops and tensors, as functions of the sizes of ranges. A part may be larger than
/// necessary, never smaller.
class UsedPartBuilder {
 public:
  explicit UsedPartBuilder(const ExtentFunctions& series) : series_(series) {}

  /// Describes `count` rows; a run of size n needs the first of(n) of them, clamped. Returns nothing if all are needed,
  /// or if the range is too long for a table.
  std::optional<Rows> by(int dimension, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const;
  /// Describes `count` rows; a run needs the first ones, their number given by `series`.
  std::optional<Rows> of(const ExtentFunction& series, int64_t count) const;
  /// Describes `count` rows; every run needs the first `first` of them. Returns nothing if these are all.
  static std::optional<Rows> ofAny(int64_t count, int64_t first);
  /// Maps `rows` to `count` other rows: if the first r of `rows` are needed, so are the first of(r) of the others. `of`
  /// is monotonic.
  std::optional<Rows> moved(const Rows& rows, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether one `Rows` can describe both: they have the same stride and count, and the same ranges unless one has
  /// none.
  static bool meet(const Rows& a, const Rows& b) {
    return a.stride == b.stride && a.count == b.count && (a.ranges == b.ranges || a.ranges == 0 || b.ranges == 0);
  }
  /// Returns the union of two `Rows` that meet; nothing if it is all rows.
  std::optional<Rows> either(const Rows& a, const Rows& b) const;
  /// Returns parts that contain every iteration that lies in all of `a` or in all of `b`.
  Parts either(llvm::ArrayRef<Part> a, llvm::ArrayRef<Part> b) const;
  /// Adds to `entries` the rows that an existing entry or `rows` needs.
  void add(UsedRowsList& entries, Rows rows) const;

  /// Returns the dimensions of a tensor along which its `Rows` can be bounded.
  Parts of(mlir::RankedTensorType type, llvm::ArrayRef<Rows> entries) const;
  std::optional<Part> of(mlir::RankedTensorType type, const Rows& rows) const;
  /// Adds the rows of a dimension whose indices are exactly the iterations of a part.
  void addPart(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, const Part& part) const;
  /// Adds the rows of dimension `dim` that loops of `extents` read at `expression`, in iterations that all `parts`
  /// need. Of windows, these are the rows up to the end of the last one.
  void addAlong(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, mlir::AffineExpr expression,
                llvm::ArrayRef<Part> parts, llvm::ArrayRef<int64_t> extents) const;
  /// Adds the first of(rows of the part) indices of dimension `dim`.
  void addMoved(UsedRowsList& entries, mlir::RankedTensorType type, int64_t dim, const Part& part,
                llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether the part is a prefix of `extent` iterations.
  static bool isPrefix(const Part& part, int64_t extent) { return part.per == 1 && part.rows.count == extent; }

 private:
  std::optional<Rows> combined(const Rows& a, const Rows& b, bool greatest) const;
  std::optional<Rows> bySum(const ExtentFunction& series, int64_t count) const;
  int64_t most(uint32_t ranges) const;

  const ExtentFunctions& series_;
};

}  // namespace tessera::compiler
