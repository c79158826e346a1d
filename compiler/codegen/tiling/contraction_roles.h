#pragma once

#include "compiler/codegen/tiling/tile_plan.h"

/// Questions that the plan of a contraction asks about its operands; used by contraction_plan and contraction_memory.
namespace tessera::compiler::codegen {

/// Which operand is which, and the loops by the operand they walk. `a` is broadcast along the vector, `b` loaded
/// as vectors; rows walk `a` only, columns `b` only, the rest both. a < 0: both operands walk the vector loop.
struct Roles {
  int a = -1, b = -1;
  llvm::SmallVector<int> rows, columns;  ///< nearest in the output first
};

Roles rolesOf(const Nest& nest, const TilePlan& plan);

/// Bytes from one iteration of `loop` to the next in input `input` of the first statement.
int64_t strideBytes(const Nest& nest, int input, int loop);

/// Whether lines `stride` bytes apart fall on so few sets of L1 that they evict each other before they are used up. As
/// many as a set has ways are never too many: a line is used for sixteen steps, and comes back from L2 once at worst.
bool collide(const Chip& chip, int64_t lines, int64_t stride);

/// Whether the broadcast operand of a product is copied block by block whatever the tile: many blocks of half of L2,
/// whose rows lie so that eight of them take most of the ways of one set of L1, where the vectors that pass would evict
/// them.
bool copiesBlocks(const Nest& nest, const Chip& chip, const Roles& roles);

/// Steps of one block of the reduction loops that `operand` walks: beyond prices().products().longest_reduction() a
/// block of rows in L2 has too few rows to reuse what it reads.
int64_t blockDepthOf(const Nest& nest, const Chip& chip, const Operand& operand);

/// Iterations of the reduction loops that `operand` walks: its vectors in one tile.
int64_t depthOf(const Nest& nest, const Operand& operand);

/// Bytes of all that `operand` walks; windows that overlap count each time.
int64_t bytesOf(const Nest& nest, const Operand& operand);

/// Steps that a loop takes.
struct LoopSteps {
  int loop;
  int64_t count;
};

/// Memory in runs of neighbours.
struct Runs {
  int64_t count = 1, each = 0;  ///< bytes
  int64_t bytes() const { return count * each; }
};

/// What `operand` walks over the whole sum while these loops take so many steps and no others any; windows that overlap
/// count once.
Runs touchedRuns(const Nest& nest, const Operand& operand, llvm::ArrayRef<LoopSteps> steps);

/// Tiles that read one and the same element of `operand`.
int64_t passesOver(const Nest& nest, const TilePlan& plan, const Operand& operand);

/// Rows of the whole product.
int64_t rowsOf(const Nest& nest, const Roles& roles);

/// Loops of a nest by distance from the tile: what both operands walk, far rows, columns, the tile's own rows. The
/// tile of the vector operand stays in cache while the two innermost row loops run, or, with columns inside, the tile
/// of the broadcast operand while the columns do.
int rankOf(const Roles& roles, const TilePlan& plan, int loop, bool columns_inside);

}  // namespace tessera::compiler::codegen
