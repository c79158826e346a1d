#pragma once

#include "compiler/graph/constants/dense_value.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Adds a sum of products of f32 (out + a * b, any loops) to `out`, in blocks that stay in the nearest caches and on
/// all cores. Every element adds its products in the order of the loops, each product and sum rounded once: the same
/// bytes as point by point. `accesses` are those of a, b and the result. False, with nothing written, where the
/// operation is another one or has no loop along which the result and one operand are contiguous.
bool addConstantProduct(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents,
                        llvm::ArrayRef<StridedAccess> accesses, const char* a, const char* b, char* out);

}  // namespace tessera::compiler
