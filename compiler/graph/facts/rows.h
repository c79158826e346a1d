#pragma once

#include "compiler/import/import.h"
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

/// The rows of the values of `main`, as far as its operations let see them, by the dimensions of the model that are
/// ranges. Whatever lies in rows beyond a run's count, even bytes that nobody wrote, the rows before them are the same,
/// and no address or divisor comes of it: values are left out on which one of these, or an operation that combines rows
/// (such as a sum over what a mask has cleared), depends.
RowsOfValues findRows(const ImportedModel& model, mlir::func::FuncOp main);

}  // namespace tessera::compiler
