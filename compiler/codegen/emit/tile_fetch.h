#pragma once

#include "compiler/codegen/emit/tile_memory.h"

namespace tessera::compiler::codegen {

/// What a tile asks for before it is needed, as its plan says.
class TileFetch {
 public:
  /// `points` may be filled later.
  TileFetch(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
            const Tile& tile, TileMemory& memory, const std::vector<Point>& points)
      : b_(builder), nest_(nest), plan_(plan), context_(context), tile_(tile), memory_(memory), points_(points) {}

  /// The vector operand's lines of a few steps later: panels larger than L1 come from L2 in time.
  void ahead();
  /// The broadcast operand's lines of the next iteration of `loop`.
  void rows(int loop);
  /// The results' lines, which a long sum would otherwise find gone from the caches nearby.
  void results();

  /// The vectors of the next tile of columns come to L2 while the tiles of rows before it are summed, and what later
  /// slices need while those of this one are. Each tile asks for its share, evenly over its steps: start() where the
  /// pointers are the tile's own, shares() in each body of unrolled steps, of which `step` (i64) is the first within
  /// the block of the reduction.
  void start();
  void shares(mlir::Value step);
  bool hasShares() const { return !shares_.empty(); }

 private:
  mlir::Value constant(int64_t value);
  mlir::Value tileInBlock(llvm::ArrayRef<int> loops);
  void lines(int slot, int64_t further, bool to_write);
  void startPanel();
  void startUpcoming(const Upcoming& upcoming);
  void share(mlir::Value first, mlir::Type element, int64_t elements);

  mlir::OpBuilder& b_;
  const Nest& nest_;
  const TilePlan& plan_;
  const EmitContext& context_;
  const Tile& tile_;
  TileMemory& memory_;
  const std::vector<Point>& points_;
  /// What this tile asks for.
  struct Share {
    mlir::Value first;  ///< pointer: the first line
    mlir::Type element;
    int64_t step = 0;   ///< elements per step of the reduction
    int64_t lines = 0;  ///< asked for in each body
  };
  llvm::SmallVector<Share> shares_;
};

}  // namespace tessera::compiler::codegen
