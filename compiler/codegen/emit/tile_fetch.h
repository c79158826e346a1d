#pragma once

#include "compiler/codegen/emit/tile_memory.h"

namespace tessera::compiler::codegen {

/// What a tile asks for before it is needed, as its plan says.
class TileFetch {
 public:
  /// `points` may be filled later.
  TileFetch(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const Tile& tile, TileMemory& memory,
            const std::vector<Point>& points)
      : b_(builder), nest_(nest), plan_(plan), tile_(tile), memory_(memory), points_(points) {}

  /// The vector operand's lines of a few steps later: panels larger than L1 come from L2 in time.
  void ahead();
  /// The broadcast operand's lines of the next iteration of `loop`.
  void rows(int loop);
  /// The results' lines, which a long sum would otherwise find gone from the caches nearby.
  void results();

  /// The vectors of the next tile of columns come to L2 while the tiles of rows before it are summed, each of which
  /// asks for its share, evenly over its steps: startPanel() where the pointers are the tile's own, panel() in each
  /// body of unrolled steps, of which `step` (i64) is the first within the block of the reduction.
  void startPanel();
  void panel(mlir::Value step);

 private:
  mlir::Value constant(int64_t value);
  mlir::Value tileInBlock(llvm::ArrayRef<int> loops);
  void lines(int slot, int64_t further, bool to_write);

  mlir::OpBuilder& b_;
  const Nest& nest_;
  const TilePlan& plan_;
  const Tile& tile_;
  TileMemory& memory_;
  const std::vector<Point>& points_;
  mlir::Value share_;        ///< pointer: the first line of this tile's share; null = none
  mlir::Type element_;       ///< of the panel
  int64_t share_step_ = 0;   ///< elements of the share per step of the reduction
  int64_t share_lines_ = 0;  ///< lines asked for in each body
};

}  // namespace tessera::compiler::codegen
