#pragma once

#include "compiler/backends/cpu/emit/tile_memory.h"

namespace tessera::compiler::codegen {

/// Whether `plan.prefetch_panel` prefetches anything: there is a next panel, and its lines can be divided among the
/// tiles of rows.
bool prefetchesPanel(const Nest& nest, const TilePlan& plan);

/// Emits the prefetches of one tile, as its plan requests.
class TilePrefetch {
 public:
  /// `points` may be filled later.
  TilePrefetch(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const Chip& chip, const Tile& tile,
               TileMemory& memory, const std::vector<Point>& points)
      : b_(builder), nest_(nest), plan_(plan), chip_(chip), tile_(tile), memory_(memory), points_(points) {}

  /// Prefetches the vector operand's lines of a few steps ahead, so that panels larger than L1 arrive from L2 in time.
  void ahead();
  /// Prefetches the lines that a later body of unrolled steps broadcasts, from panels copied block by block, which are
  /// in L2.
  void copied();
  /// Prefetches the broadcast operand's lines of the next iteration of `loop`.
  void rows(int loop);
  /// Prefetches the results' lines, which may have left the near caches by the end of a long sum. Call startResults()
  /// where the pointers are the tile's own, and results() in each body of unrolled steps (see panel()). Each body
  /// prefetches a few lines only: a core has about a dozen outstanding misses, and the operands' lines need them too.
  void startResults();
  void results(mlir::Value step);

  /// Brings the vectors of the next tile of columns to L2 while the tiles of rows before it are summed. Each of these
  /// tiles prefetches its share, spread evenly over its steps. Call startPanel() where the pointers are the tile's own,
  /// and panel() in each body of unrolled steps; `step` (i64) is the body's first step within the block of the
  /// reduction.
  void startPanel();
  void panel(mlir::Value step);

  /// Brings the operands of the region's next slice to L2 in the same way; call nextSlice() in each body.
  void startNextSlice(const EmitContext& context);
  void nextSlice(mlir::Value step);

  /// Does the same for blocks that later slices read or write: each tile of this slice prefetches its share.
  void startNextBlocks(const EmitContext& context);
  void nextBlocks(mlir::Value step);

 private:
  /// The part of a block that this tile prefetches.
  struct Share {
    mlir::Value first;  ///< pointer: the first line
    mlir::Type element;
    int64_t step = 0;   ///< elements per step of the reduction
    int64_t lines = 0;  ///< prefetched in each body
  };
  /// Runs of lines that all tiles together prefetch, in groups of neighbouring lines.
  struct Wanted {
    mlir::Value first;  ///< pointer: the first run
    const PrefetchedRuns* runs = nullptr;
    int64_t lines = 1;   ///< of a group: lines prefetched in each body
    int64_t groups = 1;  ///< of a run
    int64_t scaled = 0;  ///< groups a step, times 2^kScale
  };
  mlir::Value constant(int64_t value);
  mlir::Value tileInBlock(llvm::ArrayRef<int> loops);
  std::pair<int64_t, int64_t> stepsAndBody() const;
  /// Elements of one line.
  int64_t lineOf(mlir::Type element) const;
  void lines(int slot, int64_t further);
  mlir::Value partOf(const NextBlock& block, int64_t elements, const EmitContext& context);

  mlir::OpBuilder& b_;
  const Nest& nest_;
  const TilePlan& plan_;
  const Chip& chip_;
  const Tile& tile_;
  TileMemory& memory_;
  const std::vector<Point>& points_;
  mlir::Value share_;        ///< pointer: the first line of this tile's share; null = none
  mlir::Type element_;       ///< of the panel
  int64_t share_step_ = 0;   ///< elements of the share per step of the reduction
  int64_t share_lines_ = 0;  ///< lines prefetched in each body
  std::vector<Wanted> wanted_;
  llvm::SmallVector<Share> next_blocks_;
  mlir::Value steps_before_;  ///< i64: steps of the tiles before this one

  /// Lines of one slot's results: body i of the first `bodies` prefetches those at `offsets` + i * `distance`.
  struct ResultLines {
    mlir::Value first;
    mlir::Type element;
    llvm::SmallVector<int64_t> offsets;
    int64_t distance = 0, bodies = 1;
  };
  llvm::SmallVector<ResultLines> results_;
};

}  // namespace tessera::compiler::codegen
