#pragma once

#include "compiler/backends/cpu/emit/loop_emitter.h"

namespace tessera::compiler::codegen {

/// A memory operand of a nest, with a pointer already advanced by the loops outside of the tile.
struct Slot {
  const Operand* operand = nullptr;
  mlir::Value pointer;  ///< the element at the tile's origin; null when the operand is not in memory
};

/// One register tile: the unit for which a micro-kernel emits code.
struct Tile {
  llvm::SmallVector<int64_t> sizes;       ///< parallel loops: elements of this tile; reduction loops: unrolling
  llvm::SmallVector<mlir::Value> origin;  ///< per loop: i64 index of the tile's first iteration (parallel loops)
  llvm::SmallVector<Slot> slots;          ///< inputs then outputs of statement 0, then of statement 1, ...
};

/// pointer + stride * index, in elements.
mlir::Value advance(mlir::OpBuilder& builder, mlir::Value pointer, mlir::Type element, int64_t stride,
                    mlir::Value index);

/// The type an element has in memory: i1 takes a byte.
mlir::Type memoryType(mlir::Type element);

}  // namespace tessera::compiler::codegen
