#pragma once

#include "compiler/codegen/tile_memory.h"

namespace tessera::compiler::codegen {

/// What a tile asks for before it is needed, as its plan says.
class TileFetch {
 public:
  TileFetch(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, TileMemory& memory,
            llvm::ArrayRef<Point> points)
      : b_(builder), nest_(nest), plan_(plan), memory_(memory), points_(points) {}

  /// The vector operand's lines of a few steps later: panels larger than L1 come from L2 in time.
  void ahead();
  /// The broadcast operand's lines of the next iteration of `loop`.
  void rows(int loop);
  /// The results' lines, which a long sum would otherwise find gone from the caches nearby.
  void results();

 private:
  void lines(int slot, int64_t further, bool to_write);

  mlir::OpBuilder& b_;
  const Nest& nest_;
  const TilePlan& plan_;
  TileMemory& memory_;
  llvm::ArrayRef<Point> points_;
};

}  // namespace tessera::compiler::codegen
