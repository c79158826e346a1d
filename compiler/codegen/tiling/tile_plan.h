#pragma once

#include <optional>

#include "compiler/codegen/nest.h"
#include "compiler/target/chip.h"

namespace tessera::compiler::codegen {

class MicroKernel;

/// One loop around the register tile: `loop` in steps of `step` iterations. A blocked loop has several levels, each in
/// steps of several of the next one's.
struct Level {
  int loop;
  int64_t step;
};

/// An input of the first statement that is copied to panels before the nest runs: `loop` is cut into panels of
/// tile[loop] iterations, each contiguous: [outer loops..., panel, reduction loops, iteration within the panel].
/// With `apart` the reduction loops stay contiguous for each iteration of `loop`, and only the distance from one to the
/// next is changed: rows a power of two apart would share few sets of the caches.
struct PackedOperand {
  int input;
  int loop;
  bool apart = false;
  /// Copied a cache block at a time into the thread's scratch, just before the tiles of the block read it.
  bool within = false;
  llvm::SmallVector<int> order = {};  ///< loops of the panels, slowest first
  int64_t distance = 0;               ///< apart: elements from one iteration of `loop` to the next
  int64_t ahead = 0;  ///< within: steps of the innermost reduction by which the copy is fetched ahead; 0 = not
  bool operator==(const PackedOperand&) const = default;
};

struct BlockCopy;

/// A buffer as a step of a region touches it: input or output `index` of a statement.
struct TouchedBuffer {
  int step = 0, statement = 0;
  bool result = false;
  int index = 0;
};

/// Contiguous memory that later slices of a region read or write: each slice fetches a part of it, each of its tiles
/// for a share of that.
struct NextBlock {
  Access block;                       ///< what one slice touches: root, offset, elements per slice number
  int64_t elements = 0;               ///< of the block
  int loop = 0;                       ///< the slice loop whose next number it is about
  llvm::SmallVector<int64_t> counts;  ///< slices along each slice loop: those of the loops within share the block
  TouchedBuffer source;               ///< whose block it is
};

/// What the next slice of a region reads: runs of `lines` cache lines each.
struct FetchedRuns {
  Access access;                                            ///< of the present slice
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> apart;  ///< from run to run: elements, how often
  int64_t lines = 1;
  TouchedBuffer source = {};  ///< whose runs they are
  int64_t count() const {
    int64_t product = 1;
    for (auto [step, times] : apart) product *= times;
    return product;
  }
};

/// Points times unrolled steps of one tile: beyond, code grows without anything to gain.
constexpr int64_t kMostInTile = 2048;

/// Loop-level decisions for one nest.
struct TilePlan {
  const MicroKernel* kernel = nullptr;  ///< what runs for each tile, see micro_kernel.h
  int lanes = 1;                        ///< elements of one vector; 1 = scalar code
  int vector_loop = -1;                 ///< the loop whose neighbours share a vector; -1 with lanes = 1
  bool horizontal = false;              ///< vector_loop is a reduction: lanes are combined at the end
  int transposed = -1;                  ///< operands contiguous along this loop are loaded along it and transposed
  llvm::SmallVector<int64_t> tile;      ///< per loop: iterations emitted without a loop
  llvm::SmallVector<int64_t> block;     ///< per loop: iterations of its innermost block, a multiple of tile; 0 = none
  llvm::SmallVector<int> order;         ///< parallel loops, outermost first
  llvm::SmallVector<int> points;        ///< parallel loops as the tile's accumulators are visited, slowest first
  llvm::SmallVector<int> reductions;    ///< reduction loops, outermost first
  llvm::SmallVector<Level> levels;      ///< loops around the tile, outermost first: `order` with the blocks put in
  int grid_levels = 0;                  ///< the first so many of `levels` form the grid
  llvm::SmallVector<PackedOperand> packed;
  int64_t ahead = 0;           ///< steps of the innermost reduction by which vectors are fetched ahead; 0 = not
  bool fetch_rows = false;     ///< broadcast operands are fetched one iteration of the outer reduction ahead
  bool fetch_panel = false;    ///< the next tile's vectors are fetched to L2 while the rows of this one pass
  bool fetch_results = false;  ///< the results' lines are fetched while the tile is being summed
  bool interleaved = false;    ///< the points of a step go by the depth of their operations, see emit/interleave.h
  /// Levels outside of the copies of operands packed `within` blocks; none of the levels inside is in the grid.
  int copy_level = 0;
  std::vector<BlockCopy> copies;                      ///< of operands packed `within` blocks, see packing.h
  llvm::SmallVector<FetchedRuns, 1> next_slice = {};  ///< what the tiles fetch, evenly over their steps
  std::vector<NextBlock> next_blocks = {};            ///< blocks of later slices, fetched in the same way
  int rows = 1, vectors = 1;                          ///< accumulators of the register tile: rows x vectors

  /// Iterations that `level` walks: those of the next block outside of it, or the whole loop's.
  int64_t walkedBy(const Nest& nest, int level) const;
  /// How often `level` goes round in them, where they are not cut short by the loop's end.
  int64_t count(const Nest& nest, int level) const;
  /// Fills `levels` from `order`, `tile` and `block`. Blocks of `order` go to the place of the loop's own level
  /// or before `first_blocked`, whichever is further out; a blocked reduction goes after them.
  void orderLevels(int first_blocked);
};

/// How one operand of a nest is copied to panels block by block.
struct BlockCopy {
  int input = 0;
  int64_t ahead = 0;  ///< see PackedOperand
  struct Moved {
    int loop;
    int64_t covered;  ///< iterations of one copy
  };
  llvm::SmallVector<Moved> moved;  ///< by loops outside of the copy: slice numbers of the copying nests
  llvm::SmallVector<size_t> cut;   ///< positions of those whose last copy covers less
  std::vector<Nest> nests;         ///< bit i of the index: in the last block of cut[i]
  std::vector<TilePlan> plans;     ///< one per nest
};

/// Iterations of `loop` that one copy of an operand covers: all, or those of the innermost block outside of the copy.
int64_t copiedAlong(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, int loop);

/// Elements of one row of a copy that lies apart: what it holds of those of its `loops`, slowest first, that come
/// behind the one along which rows follow each other.
int64_t elementsOfRow(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, llvm::ArrayRef<int> loops);

/// What is accepted instead of packed.distance; empty: that. Rows do not overlap, and what is between them is no more
/// than a page or sixteen rows; panels have no rows.
std::string refusedDistance(const Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                            llvm::ArrayRef<int> loops);

/// What the nests of a region ask of each other's plans.
struct Wanted {
  std::optional<llvm::SmallVector<int>> packed = std::nullopt;  ///< inputs to pack, and no others
  int64_t vectors = 0;                                          ///< of the register tile, where there is such a tile
  bool nested = false;                                          ///< blocks within blocks, see nested_blocks.h
};

/// Points of the register tile along parallel loop `loop`: vectors along the vector loop.
int64_t pointsAlong(const TilePlan& plan, int loop);

/// Points of the whole tile: a vector loop that sums adds none.
int64_t pointsOf(const Nest& nest, const TilePlan& plan);

/// Bits of the widest element the nest touches: it decides how many lanes a vector has.
int widestBits(const Nest& nest);

/// Elements of the widest type the nest touches that fit in a vector.
int lanesOf(const Nest& nest, const Chip& chip);

/// The most lanes of vectors whose squares are transposed in registers. Types of fewer bits have more in a whole
/// vector.
constexpr int kMostTransposedLanes = 16;

/// A tile of one point, nothing decided.
TilePlan emptyPlan(const Nest& nest);

/// The same with the loop whose neighbours share a vector, where vectors pay.
TilePlan planVectors(const Nest& nest, const Chip& chip);

/// A parallel loop along which an operand that is strided along the vector loop is contiguous, so that squares of it
/// can be transposed in registers; -1: none.
int transposedLoop(const Nest& nest, int vector_loop, int lanes);

/// Order of the loops, and a tile of a few independent vectors, which hide latency; more of them when a body is cheap.
void chooseSimpleTile(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether the points of a step of the plan's sum take their turns by the depth of their operations: a few of them that
/// evaluate a long body.
bool choosesInterleaving(const Nest& nest, const Chip& chip, const TilePlan& plan);

/// Reduction loops, the one with the largest steps outermost.
void orderReductions(const Nest& nest, TilePlan& plan);

/// How far each is unrolled: short inner ones entirely, a long innermost one by four, within a bound on the code's
/// size.
void unrollReductions(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Instructions of one tile over its whole sum, as bodies count them.
double bodiesOfTile(const Nest& nest, const TilePlan& plan);

/// What cores that wait for the last one add to the time of so many equal points, as a share of it; 0 on few cores,
/// which many points leave even enough.
double waitingShare(const Chip& chip, int64_t points);

/// As many outer loops as leave a few thousand instructions for one grid point, or an eighth of that where there would
/// be too few points to share.
void chooseGrid(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Cuts the first loop within a grid of few points into equal blocks, which become the grid's last level: work that can
/// be shared. For nests that are not contractions, where the loop can be cut so.
void splitGrid(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether the nest multiplies and accumulates two operands.
bool isContraction(const Nest& nest);

/// Number of grid points of `nest` under `plan`.
int64_t gridOf(const Nest& nest, const TilePlan& plan);

}  // namespace tessera::compiler::codegen
