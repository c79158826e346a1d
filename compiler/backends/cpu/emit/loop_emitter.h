#pragma once

#include <functional>

#include "compiler/backends/cpu/nest.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// The environment that emitted code takes from the function around it.
struct EmitContext {
  std::function<mlir::Value(mlir::Value)> pointer;  ///< root memref -> !llvm.ptr
  std::function<mlir::Value(mlir::Value)> outer;    ///< scalar of the workload -> scalar of this function
  const Chip* chip = nullptr;
  llvm::SmallVector<mlir::Value> slice;  ///< i64: numbers of the slice of a region, one per slice loop
};

/// Emits the nest for grid points [lo, hi) (i64): grid loop, tile loops, and the register tile inside.
void emitNest(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              mlir::Value lo, mlir::Value hi);

}  // namespace tessera::compiler::codegen
