#pragma once

#include "compiler/graph/analysis/used_parts.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Values of a body that only some of its iterations need, because a mask selects, with these iterations.
using MaskedValues = llvm::DenseMap<mlir::Value, UsedParts>;

/// Finds where masks by extents limit the iterations that a body needs. Such a mask is a select on a comparison of a
/// position with an extent that the sizes of ranges decide. The importer emits it before operators that combine rows.
class ExtentMasks {
 public:
  ExtentMasks(ExtentFunctions& series, const UsedPartBuilder& parts) : series_(series), parts_(parts) {}

  /// Returns the arguments, and elements read at computed positions, that are needed only where a mask selects them.
  MaskedValues maskedValues(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);

 private:
  std::optional<UsedPart> holdsFor(mlir::Value condition, mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);
  std::optional<UsedRows> trueFor(mlir::Value conditions);

  ExtentFunctions& series_;
  const UsedPartBuilder& parts_;
};

}  // namespace tessera::compiler
