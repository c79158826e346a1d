#pragma once

#include <memory>

#include "compiler/import/import.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Elements of a tensor by the row of a range that they belong to: element e, row-major, is of row e / stride mod N, N
/// the greatest size of the dimension. A view keeps it.
struct Rows {
  int dimension = 0;  ///< position in ImportedModel.dimensions
  int64_t stride = 1;
  bool operator==(const Rows&) const = default;
};

using RowsOfValues = llvm::DenseMap<mlir::Value, llvm::SmallVector<Rows, 1>>;

/// Which elements of the values of `main` a run needs, by the dimensions of the model that are ranges: those that are,
/// in every way of `Rows` given for the value, of one of the rows that the run has. All others may be anything, even
/// bytes that nobody wrote: nothing that is needed is computed of them, and no address or divisor comes of them.
///
/// Asked from the results backwards: rows of a result that count need rows of its operands. Rows that meet, as in a
/// sum, are all needed; but of what a mask clears (a select by a position in front of the count, as import leaves it)
/// those in front of the count only, which is why the rows of a softmax or an attention are told apart.
class RowFacts {
 public:
  RowFacts(const ImportedModel& model, mlir::func::FuncOp main);
  ~RowFacts();

  /// None: all of it is needed.
  llvm::ArrayRef<Rows> of(mlir::Value value) const;

  /// For operations that run together: rows of what they read that become the same rows of `results`, without what a
  /// mask among these operations leaves out. Whatever they compute in between for such a row is of that row too.
  RowsOfValues alongside(llvm::ArrayRef<mlir::Operation*> ops, llvm::ArrayRef<mlir::Value> results) const;

 private:
  class Finder;
  std::unique_ptr<Finder> finder_;
  RowsOfValues rows_;
};

}  // namespace tessera::compiler
