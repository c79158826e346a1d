#pragma once

#include <vector>

#include "compiler/codegen/instruction/tile_instruction.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/target/chip.h"

namespace tessera::compiler::codegen {

/// Tile registers of sums, and those that hold columns at once.
inline constexpr int kSums = 4, kColumnTiles = 3;

/// The instruction on tiles that evaluates the nest's product; null: none does.
const TileProduct* productOf(const Nest& nest);

/// How a piece of the results and of the sum is cut into tiles of equal shapes, whose sums may be the same at the edges
/// of neighbours: on the thread's stack, where those of a piece wait; results are written once.
struct Piece {
  int64_t rows = 0, columns = 0;            ///< of one tile
  int64_t row_tiles = 0, column_tiles = 0;  ///< of the piece
  int64_t depth = 0, last = 0;              ///< groups of the sum in whole tiles, and in the last one; 0: none
  bool operator==(const Piece&) const = default;

  /// Registers that hold columns at once.
  int64_t columnRegisters() const { return last > 0 ? 1 : kColumnTiles; }
  bool keepsColumns() const { return row_tiles == 1 || column_tiles <= columnRegisters(); }
  int64_t products() const { return row_tiles * column_tiles; }
  int64_t loads() const { return row_tiles + (keepsColumns() ? column_tiles : products()); }
};

/// The piece of `sizes` of a nest, `depth` groups of its sum at a time.
Piece pieceOf(const Nest& nest, const TileLoops& loops, llvm::ArrayRef<int64_t> sizes, int64_t depth);

/// Where the operands of pieces come from. Of neighbouring pieces one operand is the same: it stays in the near level,
/// if it fits there beside what passes; the other one passes, from behind that level unless all of it fits.
class PieceFlow {
 public:
  PieceFlow(const Nest& nest, const Chip& chip, const TileLoops& loops);

  /// Cycles of one step of the sum of a piece of so many rows and columns: of products, of loads, or of waiting for the
  /// sums of the step before.
  double stepCycles(const Piece& piece, int64_t rows, int64_t columns) const;
  /// Whether it is better that rows stay while columns pass by.
  bool keepsRows(const Piece& piece, int64_t rows, int64_t columns) const {
    return loadCycles(piece, rows, columns, true) <= loadCycles(piece, rows, columns, false);
  }

 private:
  double rateOf(double bytes) const { return bytes <= kept_most_ ? near_ : behind_; }
  double loadCycles(const Piece& piece, int64_t rows, int64_t columns, bool keeps_rows) const;

  const TileProduct& product_;
  double tile_bytes_, kept_most_, near_, behind_;
  std::vector<double> rows_, columns_;  ///< bytes that so many of them touch over the whole sum
  double passing_rows_ = 0, passing_columns_ = 0;
};

/// Of all pieces that the registers of sums hold, the one of least cycles over main and rest pieces: the plan's tile.
/// Of those `vectors` wide, where there are any.
void choosePiece(const Nest& nest, const Chip& chip, const TileLoops& loops, const PieceFlow& flow, int64_t vectors,
                 TilePlan& plan);

/// The operand that passes by a piece comes from the second level each time: of a larger one as much at a time as fits
/// there beside the other, in blocks of the outermost loop of the plan's order that only it walks.
void blockPassing(const Nest& nest, const Chip& chip, int passing, TilePlan& plan);

}  // namespace tessera::compiler::codegen
