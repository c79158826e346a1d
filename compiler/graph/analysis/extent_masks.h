#pragma once

#include "compiler/graph/analysis/used_parts.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Values of a body that a mask selects in some iterations only, each with these iterations.
using MaskedValues = llvm::DenseMap<mlir::Value, UsedParts>;

/// Finds the iterations in which masks of a body use a value. An extent mask is a select whose condition compares a
/// position with an extent that depends on the sizes of ranges (clients/docs/design/terms.md). The importer emits such
/// masks before operators that combine rows, so that rows beyond the extent do not contribute.
class ExtentMasks {
 public:
  ExtentMasks(ExtentFunctions& series, const UsedPartBuilder& parts) : series_(series), parts_(parts) {}

  /// Returns the arguments of the body, and the elements that it reads at computed positions, that are used only as
  /// operands of such selects.
  MaskedValues maskedValues(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);

 private:
  std::optional<UsedPart> holdsFor(mlir::Value condition, mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents);
  std::optional<UsedRows> trueFor(mlir::Value conditions);

  ExtentFunctions& series_;
  const UsedPartBuilder& parts_;
};

}  // namespace tessera::compiler
