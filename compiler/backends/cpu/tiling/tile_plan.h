#pragma once

#include <optional>

#include "compiler/backends/cpu/nest.h"
#include "compiler/target/chip.h"

namespace tessera::compiler::codegen {

class MicroKernel;

/// One loop around the register tile. It walks the nest's loop `loop` in steps of `step` iterations. A blocked loop of
/// the nest has several tile loops; the step of each is a multiple of the step of the next inner one.
struct TileLoop {
  int loop;
  int64_t step;
};

/// An input of the first statement that is copied to panels before the nest runs: `loop` is cut into panels of
/// tile[loop] iterations, each contiguous: [outer loops..., panel, reduction loops, iteration within the panel]. With
/// `strided_copy` there are no panels: each iteration of `loop` is a row that keeps its layout, and only the distance
/// between rows changes, since rows whose distance is a power of two share few sets of the caches.
struct PackedOperand {
  int input;
  int loop;
  bool strided_copy = false;
  /// Copied one cache block at a time into the thread's scratch, just before the tiles of the block read it.
  bool within = false;
  llvm::SmallVector<int> order = {};  ///< loops of the panels, slowest first
  int64_t distance = 0;               ///< strided_copy: elements from one iteration of `loop` to the next
  /// within: steps of the innermost reduction by which the copy is prefetched ahead; 0: no prefetch
  int64_t ahead = 0;
  bool operator==(const PackedOperand&) const = default;
};

struct BlockCopy;

/// Identifies a buffer by an access to it: input or output `index` of a statement in a step of a region.
struct BufferReference {
  int step = 0, statement = 0;
  bool result = false;
  int index = 0;
};

/// Contiguous memory that later slices of a region read or write. Each slice prefetches a part of it, divided among its
/// tiles.
struct NextBlock {
  Access block;          ///< the block of one slice: root, offset, elements per slice number
  int64_t elements = 0;  ///< of the block
  int loop = 0;          ///< the innermost slice loop that moves the block: its next slice reads the next block
  /// Slices along each slice loop; the slices of loops inside `loop` share the block and its prefetches.
  llvm::SmallVector<int64_t> counts;
  BufferReference source;  ///< the operand whose block it is
};

/// The memory that the next slice of a region reads: runs of `lines` cache lines each.
struct PrefetchedRuns {
  Access access;                                            ///< of the current slice
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> apart;  ///< from run to run: distance in elements, number of runs
  int64_t lines = 1;
  BufferReference source = {};  ///< the operand whose runs they are
  int64_t count() const {
    int64_t product = 1;
    for (auto [step, times] : apart) product *= times;
    return product;
  }
};

/// Largest number of points times unrolled steps of one tile: beyond it, code grows without benefit.
constexpr int64_t kMaxInTile = 2048;

/// Loop-level decisions for one nest.
struct TilePlan {
  const MicroKernel* kernel = nullptr;  ///< runs each tile, see micro_kernel.h
  int lanes = 1;                        ///< elements of one vector; 1 = scalar code
  int vector_loop = -1;                 ///< the loop whose neighbouring iterations form a vector; -1 with lanes = 1
  bool horizontal = false;              ///< vector_loop is a reduction: lanes are combined at the end
  int transposed = -1;  ///< loop along which strided operands are contiguous: loaded along it, transposed; -1: none
  llvm::SmallVector<int64_t> tile;   ///< per loop: iterations emitted without a loop
  llvm::SmallVector<int64_t> block;  ///< per loop: iterations of its innermost block, a multiple of tile; 0 = none
  llvm::SmallVector<int> order;      ///< parallel loops, outermost first
  /// Parallel loops in the order in which the tile's accumulators are visited, slowest first.
  llvm::SmallVector<int> points;
  llvm::SmallVector<int> reductions;   ///< reduction loops, outermost first
  llvm::SmallVector<TileLoop> levels;  ///< loops around the tile, outermost first: `order` with the blocks inserted
  int grid_levels = 0;                 ///< the first `grid_levels` of `levels` form the grid
  llvm::SmallVector<PackedOperand> packed;
  /// steps of the innermost reduction by which vectors are prefetched ahead; 0: no prefetch
  int64_t ahead = 0;
  bool prefetch_rows = false;  ///< broadcast operands are prefetched one iteration of the outer reduction ahead
  /// the next tile's vectors are prefetched to L2 while the rows of this one are computed
  bool prefetch_panel = false;
  bool prefetch_results = false;  ///< the results' lines are prefetched while the tile is being summed
  /// the points of a step are ordered by the depth of their operations, see emit/interleave.h
  bool interleaved = false;
  /// Number of levels outside of the copies of operands packed `within` blocks; no level inside belongs to the grid.
  int copy_level = 0;
  std::vector<BlockCopy> copies;                         ///< of operands packed `within` blocks, see tiling/panels.h
  llvm::SmallVector<PrefetchedRuns, 1> next_slice = {};  ///< prefetched by the tiles, evenly over their steps
  std::vector<NextBlock> next_blocks = {};               ///< blocks of later slices, prefetched in the same way
  int rows = 1, vectors = 1;                             ///< accumulators of the register tile: rows x vectors

  /// Iterations of its loop that `level` walks: the step of the next outer level of that loop, or the whole extent.
  int64_t walkedBy(const Nest& nest, int level) const;
  /// Number of steps of `level` within these iterations; the last block of a loop may have fewer.
  int64_t count(const Nest& nest, int level) const;
  /// Fills `levels` from `order`, `tile` and `block`: one level of `tile` iterations per loop of `order`, and all block
  /// levels before the level of order[first_blocked], parallel loops first, then reductions. Loops of `order` before
  /// that position must have no block. Sets `copy_level` to the position after the block levels.
  void orderLevels(int first_blocked);
};

/// Copies one operand of a nest to panels, block by block. The last block of a loop may be smaller, so there is one
/// copying nest for each combination of full and partial blocks.
struct BlockCopy {
  int input = 0;
  int64_t ahead = 0;  ///< see PackedOperand
  struct MovingLoop {
    int loop;
    int64_t covered;  ///< iterations of one copy
  };
  /// Loops around the copy that the copied block depends on: the slice loops of the copying nests.
  llvm::SmallVector<MovingLoop> moving_loops;
  /// Positions in `moving_loops` of the loops whose last copy covers fewer iterations.
  llvm::SmallVector<size_t> partial_loops;
  std::vector<Nest> nests;      ///< bit i of the index: copies the last block of partial_loops[i]
  std::vector<TilePlan> plans;  ///< one per nest
};

/// Iterations of `loop` that one copy of an operand covers: all of them, or those of the innermost block outside of the
/// copy.
int64_t copiedAlong(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, int loop);

/// Elements of one row of a `strided_copy`: of its `loops`, slowest first, the extents after the loop along which
/// rows follow each other.
int64_t elementsOfRow(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, llvm::ArrayRef<int> loops);

/// The accepted values if packed.distance is not acceptable; empty if it is. Rows may not overlap, and the gap between
/// them is at most a page or sixteen rows; panels have no rows.
std::string refusedDistance(const Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                            llvm::ArrayRef<int> loops);

/// Constraints that nests of a region put on each other's plans.
struct PlanConstraints {
  std::optional<llvm::SmallVector<int>> packed = std::nullopt;  ///< inputs to pack, and no others
  int64_t vectors = 0;                                          ///< of the register tile, where there is such a tile
  bool nested = false;                                          ///< blocks within blocks, see nested_blocks.h
};

/// Points of the register tile along parallel loop `loop`: vectors along the vector loop.
int64_t pointsAlong(const TilePlan& plan, int loop);

/// Points of the whole tile; a vector loop that is a reduction adds none.
int64_t pointsOf(const Nest& nest, const TilePlan& plan);

/// Bits of the widest element that the nest touches, which determines the number of lanes of a vector.
int widestBits(const Nest& nest);

/// Number of elements of the widest type that the nest touches that fit in a vector.
int lanesOf(const Nest& nest, const Chip& chip);

/// The most lanes of vectors that are transposed in registers as squares. Narrower types have more lanes in a whole
/// vector.
constexpr int kMaxTransposedLanes = 16;

/// A plan with a tile of one point, in which nothing else is decided yet.
TilePlan emptyPlan(const Nest& nest);

/// An empty plan with the vector loop and the number of lanes chosen, if vectors are faster than scalar code.
TilePlan planVectors(const Nest& nest, const Chip& chip);

/// A parallel loop along which an operand that is strided along the vector loop is contiguous, so that squares of it
/// can be transposed in registers; -1: none.
int transposedLoop(const Nest& nest, int vector_loop, int lanes);

/// Chooses the loop order, and a tile of a few independent vectors, which hide latency; more of them when a body is
/// cheap.
void chooseSimpleTile(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether the points of a step of the plan's sum are ordered by the depth of their operations: yes for a few points
/// that evaluate a long body.
bool choosesInterleaving(const Nest& nest, const Chip& chip, const TilePlan& plan);

/// Reduction loops, the one with the largest steps outermost.
void orderReductions(const Nest& nest, TilePlan& plan);

/// Chooses how far each reduction is unrolled: short inner ones entirely, a long innermost one by four, within a bound
/// on the code size.
void unrollReductions(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Instructions of one tile over its whole sum, from the costs of the bodies.
double bodiesOfTile(const Nest& nest, const TilePlan& plan);

/// The additional time, as a share, that the slowest core takes for `points` equal grid points; 0 on few cores, where
/// many points balance well.
double imbalanceShare(const Chip& chip, int64_t points);

/// Puts so many outer loops in the grid that one grid point has a few thousand instructions, or an eighth of that where
/// there would be too few points to distribute.
void chooseGrid(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Cuts the first loop inside a grid of few points into equal blocks, which become the grid's last level, so that the
/// work can be distributed. Applies to nests that are not contractions, if the loop can be cut.
void splitGrid(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether the nest multiplies and accumulates two operands.
bool isContraction(const Nest& nest);

/// Number of grid points of `nest` under `plan`.
int64_t gridOf(const Nest& nest, const TilePlan& plan);

}  // namespace tessera::compiler::codegen
