#pragma once

#include <vector>

#include "compiler/codegen/instruction/tile_instruction.h"
#include "compiler/codegen/tiling/contraction_roles.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/target/chip.h"

namespace tessera::compiler::codegen {

/// Tile registers of sums, and those that hold columns at once.
inline constexpr int kSums = 4, kColumnTiles = 3;

/// The instruction on tiles that evaluates the nest's product; null: none does.
const TileProduct* productOf(const Nest& nest);

/// How a piece of the results and of the sum is cut into tiles of equal shapes, whose sums may be the same at the edges
/// of neighbours: on the thread's stack, where those of a piece wait; results are written once. A piece of more columns
/// than there are sums takes some after the others, in turns: what becomes of the sums of one turn is computed while
/// those of the next are added up.
struct Piece {
  int64_t rows = 0, columns = 0;            ///< of one tile
  int64_t row_tiles = 0, column_tiles = 0;  ///< of the piece, in one turn
  int64_t all_columns = 0;                  ///< tiles of columns in all turns
  int64_t depth = 0, last = 0;              ///< groups of the sum in whole tiles, and in the last one; 0: none
  bool operator==(const Piece&) const = default;
  /// Whether registers have the same shapes, of more or fewer tiles.
  bool fitsShapesOf(const Piece& other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth && last == other.last;
  }

  /// Registers that hold columns at once.
  int64_t columnRegisters() const { return last > 0 ? 1 : kColumnTiles; }
  bool keepsColumns() const { return row_tiles == 1 || column_tiles <= columnRegisters(); }
  int64_t turns() const { return (all_columns + column_tiles - 1) / column_tiles; }
  int64_t products() const { return row_tiles * column_tiles; }
  int64_t loads() const { return row_tiles + (keepsColumns() ? column_tiles : products()); }
};

/// The piece of `sizes` of a nest, `depth` groups of its sum at a time.
Piece pieceOf(const Nest& nest, const TileLoops& loops, llvm::ArrayRef<int64_t> sizes, int64_t depth);

/// Whether every tile, and every vector, of a piece of these sizes belongs to one turn.
bool turnsAreWhole(const Nest& nest, const TileLoops& loops, llvm::ArrayRef<int64_t> sizes, int lanes);

/// Points of a piece along both of its loops of rows, or of columns.
inline int64_t outerSize(int outer, llvm::ArrayRef<int64_t> sizes) { return outer < 0 ? 1 : sizes[outer]; }

/// Where the operands of pieces come from. Of neighbouring pieces one operand is the same: it stays in the near level,
/// if it fits there beside what passes and a piece's sums; the other one passes, from behind that level unless all of
/// it fits.
class PieceFlow {
 public:
  PieceFlow(const Nest& nest, const Chip& chip, const TileLoops& loops);

  /// Cycles of one step of all sums of a piece of these sizes of the nest's loops: of products, of loads, or of waiting
  /// for the sums of the step before.
  double stepCycles(const Piece& piece, llvm::ArrayRef<int64_t> sizes) const;
  /// Whether it is better that rows stay while columns pass by.
  bool keepsRows(const Piece& piece, llvm::ArrayRef<int64_t> sizes) const {
    return loadCycles(piece, sizes, true) <= loadCycles(piece, sizes, false);
  }

 private:
  /// One operand: what so many steps of its inner and of its outer loop touch over the whole sum, and bytes a cycle of
  /// loads where it passes, or stays and is no more than what is kept.
  struct Side {
    int inner = -1, outer = -1;
    std::vector<std::vector<Runs>> touched;
    const Runs& touchedBy(llvm::ArrayRef<int64_t> sizes) const;
    double passing = 0, staying = 0;
  };
  Side sideOf(const Nest& nest, const Chip& chip, int input, const TileLoops& loops) const;
  double rateOf(double bytes) const { return bytes <= kept_most_ ? near_ : behind_; }
  double stayingRate(const Side& side, llvm::ArrayRef<int64_t> sizes) const;
  double loadCycles(const Piece& piece, llvm::ArrayRef<int64_t> sizes, bool keeps_rows) const;

  const TileProduct& product_;
  double tile_bytes_, kept_most_, near_, behind_, run_cycles_, steps_;
  Side rows_, columns_;
};

/// Of all pieces that the registers of sums hold, the one of least cycles over main and rest pieces: the plan's tile,
/// and the loops that its tiles follow each other along. Of those `vectors` wide, where there are any.
TileLoops choosePiece(const Nest& nest, const Chip& chip, int64_t vectors, TilePlan& plan);

/// More columns for a piece whose rows stay, in turns, where pieces are enough for the chip's cores then. Not along the
/// loop of columns if those are `fixed`.
void takeTurns(const Nest& nest, const Chip& chip, bool fixed, TileLoops& loops, TilePlan& plan);

/// The operand that passes by a piece comes from the second level each time: of a larger one as much at a time as fits
/// there beside the other, in blocks of the outermost loop of the plan's order that only it walks.
void blockPassing(const Nest& nest, const Chip& chip, int passing, TilePlan& plan);

}  // namespace tessera::compiler::codegen
