#pragma once

#include <vector>

#include "compiler/backends/cpu/instruction/tile_instruction.h"
#include "compiler/backends/cpu/tiling/contraction_roles.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/target/chip.h"

namespace tessera::compiler::codegen {

/// The number of tile registers for sums, and the number that hold tiles of columns at the same time.
inline constexpr int kSums = 4, kColumnTiles = 3;

/// The tile instruction that evaluates the nest's product; null if none does.
const TileProduct* productOf(const Nest& nest);

/// A block of results that one run of the kernel computes (TilePlan::tile), cut into tiles of equal shapes for
/// instructions that multiply whole tiles (AMX). At the edges the tiles of neighbouring macro-tiles may overlap
/// and compute the same sums; a macro-tile keeps its sums on the thread's stack, and each result is written once. A
/// macro-tile with more columns than sum registers processes them in several column passes (columnPasses()). The
/// operations on the sums of one column pass run while the sums of the next one are accumulated.
struct MacroTile {
  int64_t rows = 0, columns = 0;            ///< of one tile
  int64_t row_tiles = 0, column_tiles = 0;  ///< of the macro-tile, in one column pass
  int64_t all_columns = 0;                  ///< tiles of columns in all column passes together
  /// groups along the sum: in a whole tile, and in the last, partial tile (0: there is none)
  int64_t depth = 0, last = 0;
  bool operator==(const MacroTile&) const = default;
  /// Whether tile registers have the same shapes; the number of tiles may differ.
  bool fitsShapesOf(const MacroTile& other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth && last == other.last;
  }

  /// Registers that hold columns at the same time.
  int64_t columnRegisters() const { return last > 0 ? 1 : kColumnTiles; }
  bool keepsColumns() const { return row_tiles == 1 || column_tiles <= columnRegisters(); }
  int64_t columnPasses() const { return (all_columns + column_tiles - 1) / column_tiles; }
  int64_t products() const { return row_tiles * column_tiles; }
  int64_t loads() const { return row_tiles + (keepsColumns() ? column_tiles : products()); }
};

/// The macro-tile for `sizes` iterations of a nest's loops, with `depth` groups of its sum at a time.
MacroTile macroTileOf(const Nest& nest, const MacroTileLoops& loops, llvm::ArrayRef<int64_t> sizes, int64_t depth);

/// Whether each tile and each vector of a macro-tile of these sizes belongs to exactly one column pass.
bool columnPassesAreWhole(const Nest& nest, const MacroTileLoops& loops, llvm::ArrayRef<int64_t> sizes, int lanes);

/// Points of a macro-tile along its outer loop of rows, or of columns.
inline int64_t outerSize(int outer, llvm::ArrayRef<int64_t> sizes) { return outer < 0 ? 1 : sizes[outer]; }

/// Models where the operands of macro-tiles are loaded from. Neighbouring macro-tiles share one operand: it stays in
/// the near cache level if it fits there together with the streamed operand and a macro-tile's sums. The other operand
/// is streamed, from beyond that level unless all of it fits.
class MacroTileCostModel {
 public:
  MacroTileCostModel(const Nest& nest, const Chip& chip, const MacroTileLoops& loops);

  /// Cycles of one step of all sums of a macro-tile of these sizes: the longest of product time, load time and the
  /// latency of the sums of the step before.
  double stepCycles(const MacroTile& macro_tile, llvm::ArrayRef<int64_t> sizes) const;
  /// Whether it is cheaper to keep rows in the near cache level and to stream columns.
  bool keepsRows(const MacroTile& macro_tile, llvm::ArrayRef<int64_t> sizes) const {
    return loadCycles(macro_tile, sizes, true) <= loadCycles(macro_tile, sizes, false);
  }

 private:
  /// One operand. `touched`: the memory that it touches over the whole sum, by the number of steps of its inner and
  /// outer loop. `streamed_rate`: bytes per cycle of its loads if it is streamed. `resident_rate`: the same if it stays
  /// in the near level and fits there.
  struct Side {
    int inner = -1, outer = -1;
    std::vector<std::vector<Runs>> touched;
    const Runs& touchedBy(llvm::ArrayRef<int64_t> sizes) const;
    double streamed_rate = 0, resident_rate = 0;
  };
  Side sideOf(const Nest& nest, const Chip& chip, int input, const MacroTileLoops& loops) const;
  double rateOf(double bytes) const { return bytes <= kept_most_ ? near_ : beyond_; }
  double residentRate(const Side& side, llvm::ArrayRef<int64_t> sizes) const;
  double loadCycles(const MacroTile& macro_tile, llvm::ArrayRef<int64_t> sizes, bool keeps_rows) const;

  const TileProduct& product_;
  double tile_bytes_, kept_most_, near_, beyond_, run_cycles_, steps_;
  Side rows_, columns_;
};

/// Chooses, among all macro-tiles that the sum registers hold, the one of fewest cycles over full and edge macro-tiles.
/// Sets the plan's tile and returns the loops along which the macro-tile's tiles follow each other. If any macro-tile
/// is `vectors` wide, only those are considered.
MacroTileLoops chooseMacroTile(const Nest& nest, const Chip& chip, int64_t vectors, TilePlan& plan);

/// Gives a macro-tile whose rows stay in cache more columns, processed in several column passes, if enough macro-tiles
/// for the chip's cores remain. Does not extend the loop of columns if it is `fixed`.
void splitIntoColumnPasses(const Nest& nest, const Chip& chip, bool fixed, MacroTileLoops& loops, TilePlan& plan);

/// Blocks the streamed operand, input `streamed`, if it is larger than the second cache level: each block fits there
/// together with the other operand. The blocks are of the outermost loop in the plan's order that only the streamed
/// operand walks.
void blockStreamedOperand(const Nest& nest, const Chip& chip, int streamed, TilePlan& plan);

}  // namespace tessera::compiler::codegen
