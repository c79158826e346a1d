#pragma once

#include "compiler/import/node.h"

/// Shared by operators that read or write at computed indices, one element after another.
namespace tessera::compiler {

/// An index in [-dim, dim) as a coordinate; values outside are clamped, so that generated code never leaves its
/// buffers. Requires dim >= 1. `extent`, unless null, is the i64 that negative indices count from in the place of dim.
mlir::Value coordinate(const Scalars& s, mlir::Value index, v1::DataType type, int64_t dim, mlir::Value extent = {});

/// The indices of input `input` are i32 or i64.
absl::Status checkIndices(Node& n, int input);

/// Emits loops over `extents` that run in row-major order. `body` gets a point (index type) and the tensors of
/// `state` as they are there, and gives them as they are afterwards; the result is the last state.
using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder& b, mlir::Location loc,
                                                                   mlir::ValueRange point, mlir::ValueRange state)>;
llvm::SmallVector<mlir::Value> serialLoops(Emitter& e, const Shape& extents, mlir::ValueRange state, LoopBody body);

}  // namespace tessera::compiler
