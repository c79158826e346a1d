#pragma once

#include "compiler/graph/constants/dense_value.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Adds a sum of products of f32 (out + a * b, any loops) to `out`, in blocks that fit the nearest caches, on all
/// cores. `accesses` are those of a, b and the result. Each element adds its products in loop order with one rounding
/// per product and per sum, so the bytes equal those of point-by-point evaluation. Returns false, with nothing written,
/// for another operation, or if no loop is contiguous in both the result and one operand.
bool addConstantProduct(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents,
                        llvm::ArrayRef<StridedAccess> accesses, const char* a, const char* b, char* out);

}  // namespace tessera::compiler
