#pragma once

#include "compiler/import/node.h"

/// Shared by operators that read or write at computed indices, one element at a time.
namespace tessera::compiler {

/// Returns an index in [-dim, dim) as a coordinate. Values outside are clamped, so that generated code never leaves its
/// buffers. Requires dim >= 1. Negative indices count from `extent` (i64) instead of dim, unless it is null.
mlir::Value coordinate(const Scalars& s, mlir::Value index, v1::DataType type, int64_t dim, mlir::Value extent = {});

/// Checks that the indices of input `input` are i32 or i64.
absl::Status checkIndices(Node& n, int input);

/// Emits loops over `extents` in row-major order. `body` gets a point (index type) and the current `state` tensors, and
/// returns the new ones. The result is the last state.
using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder& b, mlir::Location loc,
                                                                   mlir::ValueRange point, mlir::ValueRange state)>;
llvm::SmallVector<mlir::Value> serialLoops(Emitter& e, const Shape& extents, mlir::ValueRange state, LoopBody body);

}  // namespace tessera::compiler
