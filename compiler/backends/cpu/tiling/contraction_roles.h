#pragma once

#include "compiler/backends/cpu/tiling/tile_plan.h"

/// Properties of the operands of a contraction, used by contraction_plan and contraction_memory.
namespace tessera::compiler::codegen {

/// The role of each operand, and the loops grouped by the operands that walk them. `a` is broadcast along the vector,
/// `b` is loaded as vectors; `rows` walk `a` only, `columns` walk `b` only, all other loops walk both. a < 0: both
/// operands walk the vector loop.
struct Roles {
  int a = -1, b = -1;
  llvm::SmallVector<int> rows, columns;  ///< nearest in the output first
};

Roles rolesOf(const Nest& nest, const TilePlan& plan);

/// Bytes from one iteration of `loop` to the next in input `input` of the first statement.
int64_t strideBytes(const Nest& nest, int input, int loop);

/// Whether lines `stride` bytes apart map to so few sets of L1 that they evict each other before all of their elements
/// are used. Returns false for at most as many lines as a set has ways: each line serves sixteen steps and is loaded
/// from L2 at most twice, which costs little.
bool evictEachOther(const Chip& chip, int64_t lines, int64_t stride);

/// Whether the broadcast operand of a product is copied block by block, whatever the tile: it spans many blocks of half
/// of L2, and its rows are so placed that eight of them take most of the ways of one set of L1, from which the streamed
/// vectors would evict them.
bool needsBlockCopies(const Nest& nest, const Chip& chip, const Roles& roles);

/// Steps of one block of the reduction loops that `operand` walks, at most the chip's cost parameter
/// `products.max_reduction_block`. Longer blocks would leave room in L2 for too few rows to reuse the other operand.
int64_t blockDepthOf(const Nest& nest, const Chip& chip, const Operand& operand);

/// Iterations of the reduction loops that `operand` walks: the number of its vectors in one tile.
int64_t depthOf(const Nest& nest, const Operand& operand);

/// Bytes of all elements that `operand` accesses; overlapping windows count each time.
int64_t bytesOf(const Nest& nest, const Operand& operand);

/// A loop of the nest, and a number of steps along it.
struct LoopSteps {
  int loop;
  int64_t count;
};

/// Memory as runs of contiguous bytes.
struct Runs {
  int64_t count = 1, each = 0;  ///< bytes
  int64_t bytes() const { return count * each; }
};

/// The memory that `operand` touches over the whole sum while the loops in `steps` take the given number of steps and
/// all other loops none; overlapping windows count once.
Runs touchedRuns(const Nest& nest, const Operand& operand, llvm::ArrayRef<LoopSteps> steps);

/// The number of tiles that read the same element of `operand`.
int64_t passesOver(const Nest& nest, const TilePlan& plan, const Operand& operand);

/// Rows of the whole product.
int64_t rowsOf(const Nest& nest, const Roles& roles);

/// Rank of a parallel loop in the loop order; rank 0 is outermost. 0: loops that both operands walk. 1: row loops other
/// than the two innermost ones. 2: column loops. 3: the two innermost row loops, during which the tile of the vector
/// operand stays in cache. With `columns_inside` column loops have rank 4 instead: they are innermost, and the tile of
/// the broadcast operand stays in cache while they run.
int rankOf(const Roles& roles, const TilePlan& plan, int loop, bool columns_inside);

}  // namespace tessera::compiler::codegen
