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

/// How many rows a run needs, by how much of a range it has: 0 to the greatest size. Null: as many as it has.
using NeededRows = std::shared_ptr<const std::vector<int64_t>>;

/// Elements of a tensor by the row that they belong to: element e, row-major, is of row e / stride mod count. A view
/// keeps it. Rows need not be those of an input: of a range of 48, a convolution of stride 2 has 24.
struct Rows {
  uint32_t ranges = 1;  ///< bits: positions in ImportedModel.dimensions; 0: of any run the first `slack`
  int64_t stride = 1;
  int64_t count = 1;
  NeededRows needed = nullptr;  ///< of one range
  /// Of several, such as height and width of what is laid out in one dimension: n is the product of their counts, and
  /// a run of n of N needs ceil(n * count / N) + slack.
  int64_t slack = 0;

  bool isOfOne() const { return std::has_single_bit(ranges); }
  bool operator==(const Rows& other) const {
    return ranges == other.ranges && stride == other.stride && count == other.count && slack == other.slack &&
           (needed == other.needed || (needed && other.needed && *needed == *other.needed));
  }
};

using RowsOfValues = llvm::DenseMap<mlir::Value, llvm::SmallVector<Rows, 1>>;

/// Whether a dimension of the model is a range: runs may have less of it than its shapes say.
bool hasRanges(const ImportedModel& model);

/// Which elements of the values of `main` a run needs, by the dimensions of the model that are ranges: those that are,
/// in every way of `Rows` given for the value, of a row that is needed. All others may be anything, even bytes that
/// nobody wrote: no element that is needed is computed of them, and no address or divisor comes of them.
///
/// Asked from the results backwards: what of a result its extent lets count, what of its operands that takes, windows
/// included. Rows that meet in a sum are all needed, but of what a mask clears (a comparison of a position with an
/// extent that the counts decide, as import leaves them) those in front of it only.
class RowFacts {
 public:
  RowFacts(const ImportedModel& model, mlir::func::FuncOp main);
  ~RowFacts();

  /// None: all of it is needed.
  llvm::ArrayRef<Rows> of(mlir::Value value) const;

  /// How many steps along a dimension of the value the smallest run needs (ImportedModel.least); all of them where the
  /// dimension follows no range.
  int64_t fewest(mlir::Value value, int64_t dimension) const;

  /// For operations that run together, in program order: rows of what they read as far as these take part, all along,
  /// in the same rows of `results`, without anything that a mask among them leaves out.
  RowsOfValues alongside(llvm::ArrayRef<mlir::Operation*> ops, llvm::ArrayRef<mlir::Value> results) const;

 private:
  class Finder;
  std::unique_ptr<Finder> finder_;
  RowsOfValues rows_;
};

}  // namespace tessera::compiler
