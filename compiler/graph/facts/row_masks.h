#pragma once

#include "compiler/graph/facts/row_parts.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// The values of a body that only a part of its iterations needs: up to these parts, where a mask selects.
using Narrowed = llvm::DenseMap<mlir::Value, Parts>;

/// What masks by extents let a body need: a select by a comparison of a position with an extent that the counts of
/// ranges decide, as import leaves them in front of whatever mixes rows.
class RowMasks {
 public:
  RowMasks(ExtentSeries& series, const RowParts& parts) : series_(series), parts_(parts) {}

  /// Arguments, and elements a body takes at places of its own, that are needed in front of a mask alone.
  Narrowed narrowedBy(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);

 private:
  std::optional<Part> holdsFor(mlir::Value condition, mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);
  std::optional<Rows> trueFor(mlir::Value conditions);

  ExtentSeries& series_;
  const RowParts& parts_;
};

}  // namespace tessera::compiler
