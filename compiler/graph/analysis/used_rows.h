#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// The number of rows that a run needs, indexed by the run's size of a range, from 0 to the range's bound. Null: as
/// many rows as the size.
using UsedRowCounts = std::shared_ptr<const std::vector<int64_t>>;

/// Partitions the elements of a tensor into rows: element e, counted row-major, belongs to row e / stride mod count. In
/// a tensor of shape 2x48x5 the rows of the middle dimension have stride 5 and count 48, and row 3 is [:, 3, :]. A
/// reshape keeps the partition. The rows need not be those of an input: for a range with the bound 48, the result of a
/// convolution with stride 2 has 24 rows.
struct UsedRows {
  uint32_t ranges = 1;  ///< bit set of positions in ImportedModel.dimensions; 0: every run needs the first `slack` rows
  int64_t stride = 1;
  int64_t count = 1;
  UsedRowCounts needed = nullptr;  ///< if `ranges` is one range
  /// For several ranges, such as height and width merged into one dimension: let n be the product of a run's sizes and
  /// N the product of the bounds. The run needs at most its proportional part of the rows, ceil(n * count / N), plus
  /// `slack`.
  int64_t slack = 0;

  bool isOfOne() const { return std::has_single_bit(ranges); }
  bool operator==(const UsedRows& other) const {
    return ranges == other.ranges && stride == other.stride && count == other.count && slack == other.slack &&
           (needed == other.needed || (needed && other.needed && *needed == *other.needed));
  }
};

using UsedRowsOfValues = llvm::DenseMap<mlir::Value, llvm::SmallVector<UsedRows, 1>>;

/// Whether a dimension of the model is a range: each run chooses its size, up to the size in the model's shapes.
bool hasRanges(const ImportedModel& model);

/// Computes which elements of each value of `main` a run needs, by the ranges of the model. An element is needed if,
/// for each `UsedRows` of its value, its row is needed. Any other element may have any contents, even uninitialized
/// bytes: neither a needed element nor an address nor a divisor is computed from it.
///
/// The analysis runs backwards from the results: the extent of a result bounds its needed elements, and access
/// functions with their windows bound those of the operands. If several operations read a value, the union is needed,
/// where one `UsedRows` can describe it (UsedPartBuilder::haveUnion). Elements that
/// a mask clears (a comparison of a position with an extent that the sizes of ranges decide, as the importer emits it)
/// are not needed before the mask.
class UsedRowAnalysis {
 public:
  UsedRowAnalysis(const ImportedModel& model, mlir::func::FuncOp main);
  ~UsedRowAnalysis();

  /// Returns the `UsedRows` of a value; empty: all elements are needed.
  llvm::ArrayRef<UsedRows> of(mlir::Value value) const;

  /// Returns the number of indices along a dimension of the value that the smallest run needs (ImportedModel.least);
  /// all of them if the dimension depends on no range.
  int64_t minIndices(mlir::Value value, int64_t dimension) const;

  /// For operations that run together, in program order: returns the `UsedRows` of their operands, given those of
  /// `results`. Rows that a mask among the operations clears are not needed.
  UsedRowsOfValues usedByAll(llvm::ArrayRef<mlir::Operation*> ops, llvm::ArrayRef<mlir::Value> results) const;

 private:
  class Finder;
  std::unique_ptr<Finder> finder_;
  UsedRowsOfValues rows_;
};

}  // namespace tessera::compiler
