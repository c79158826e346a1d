#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/facts/rows.h"
#include "compiler/ir/extent_series.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

using RowEntries = llvm::SmallVector<Rows, 1>;

/// Of a loop, or of a dimension of a tensor: iteration i is needed where i / per mod rows.count is a row that is.
struct Part {
  int64_t place = 0;  ///< of the loop or dimension
  int64_t per = 1;
  Rows rows;  ///< without a stride
};
using Parts = llvm::SmallVector<Part, 2>;

/// Elements of one step along dimension `dim`.
int64_t elementsBelow(mlir::RankedTensorType type, int64_t dim);

/// Parts of loops and of tensors, as functions of how much of each range a run has. A part may be larger than what is
/// needed, never smaller.
class RowParts {
 public:
  explicit RowParts(const ExtentSeries& series) : series_(series) {}

  /// Of `count` rows those of which `of(n)` are needed in a run of n, clamped; nothing where all are, or the range is
  /// too long for a table.
  std::optional<Rows> by(int dimension, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const;
  /// Of `count` rows as many as the series says.
  std::optional<Rows> of(const Series& series, int64_t count) const;
  /// Of `count` rows the first ones, in any run; nothing where these are all.
  static std::optional<Rows> ofAny(int64_t count, int64_t first);
  /// Of `count` other rows of(r) where r of `rows` are needed; `of` does not fall.
  std::optional<Rows> moved(const Rows& rows, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether rows can be told apart by both at once: of the same stride and count, and of the same ranges unless one is
  /// of any.
  static bool meet(const Rows& a, const Rows& b) {
    return a.stride == b.stride && a.count == b.count && (a.ranges == b.ranges || a.ranges == 0 || b.ranges == 0);
  }
  /// Of rows that meet: what one needs or the other does; nothing: all.
  std::optional<Rows> either(const Rows& a, const Rows& b) const;
  /// Parts in which an iteration is that is in all of `a`, or in all of `b`.
  Parts either(llvm::ArrayRef<Part> a, llvm::ArrayRef<Part> b) const;
  /// What is needed where `entries` say so and `rows` does.
  void add(RowEntries& entries, Rows rows) const;

  /// The dimensions of a tensor along which rows of its elements are told apart.
  Parts of(mlir::RankedTensorType type, llvm::ArrayRef<Rows> entries) const;
  std::optional<Part> of(mlir::RankedTensorType type, const Rows& rows) const;
  /// Adds the rows of a dimension all along which a part goes.
  void addPart(RowEntries& entries, mlir::RankedTensorType type, int64_t dim, const Part& part) const;
  /// Adds the rows of dimension `dim` that loops of `extents` read at `expression`, in iterations in which all `parts`
  /// are needed: of a window those up to the end of the last one.
  void addAlong(RowEntries& entries, mlir::RankedTensorType type, int64_t dim, mlir::AffineExpr expression,
                llvm::ArrayRef<Part> parts, llvm::ArrayRef<int64_t> extents) const;
  /// Adds the first of(rows of the part) of dimension `dim`.
  void addMoved(RowEntries& entries, mlir::RankedTensorType type, int64_t dim, const Part& part,
                llvm::function_ref<int64_t(int64_t)> of) const;

  /// Whether the part is the first so many of `extent` iterations.
  static bool isPrefix(const Part& part, int64_t extent) { return part.per == 1 && part.rows.count == extent; }

 private:
  std::optional<Rows> combined(const Rows& a, const Rows& b, bool greatest) const;
  std::optional<Rows> bySum(const Series& series, int64_t count) const;
  int64_t most(uint32_t ranges) const;

  const ExtentSeries& series_;
};

}  // namespace tessera::compiler
