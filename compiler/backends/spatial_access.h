#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"

/// Views of buffers and access functions of bufferized workloads, as accesses of a SpatialKernel state them.
namespace tessera::compiler::spatial {

/// Element (i0, i1, ...) of a memref is element offset + sum of strides[d] * id of the buffer `root`.
struct View {
  mlir::Value root;  ///< an argument, an allocation or a constant
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides = {};
};

/// The view that a memref is; nothing if its offset or a stride is known at run time only.
std::optional<View> viewOf(mlir::Value memref);

/// A subscript as loopnest::parseSubscript() reads it; names[d] is the name of dimension d. Nothing for expressions
/// that are not sums of dimensions and of digits of such sums.
std::optional<std::string> subscriptText(mlir::AffineExpr expression, const std::vector<std::string>& names);

}  // namespace tessera::compiler::spatial
