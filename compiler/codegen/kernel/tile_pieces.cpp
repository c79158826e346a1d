#include "compiler/codegen/kernel/tile_pieces.h"

#include <algorithm>
#include <limits>

#include "compiler/codegen/tiling/contraction_plan.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/tile_cost.h"
#include "compiler/target/tile_product.h"

namespace tessera::compiler::codegen {
namespace {

Piece pieceOf(const TileProduct& product, int64_t rows, int64_t columns, int64_t depth, int64_t steps) {
  Piece piece;
  piece.row_tiles = ceilDiv(rows, product.rows);
  piece.column_tiles = ceilDiv(columns, product.columns);
  piece.rows = ceilDiv(rows, piece.row_tiles);
  piece.columns = ceilDiv(columns, piece.column_tiles);
  piece.depth = depth;
  piece.last = steps % depth;
  return piece;
}

}  // namespace

const TileProduct* productOf(const Nest& nest) {
  const auto& step = nest.statements[0].step;
  return step ? step->tiles() : nullptr;
}

Piece pieceOf(const Nest& nest, const TileLoops& loops, llvm::ArrayRef<int64_t> sizes, int64_t depth) {
  return pieceOf(*productOf(nest), sizes[loops.row], sizes[loops.column], depth, nest.extents[loops.depth]);
}

PieceFlow::PieceFlow(const Nest& nest, const Chip& chip, const TileLoops& loops)
    : product_(*productOf(nest)),
      tile_bytes_(static_cast<double>(product_.rows) * product_.depth / product_.group * 4),
      kept_most_(static_cast<double>(chip.heldBytes(chip.near()))),
      near_(chip.near().bytes_per_cycle),
      behind_(chip.behindNear().sustained_per_cycle) {
  const Statement& main = nest.statements[0];
  const auto touched = [&](int input, int loop, int most) {
    std::vector<double> bytes;
    for (int64_t n = 0; n <= std::min<int64_t>(nest.extents[loop], most); ++n)
      bytes.push_back(static_cast<double>(touchedBytes(nest, main.inputs[input], loop, n)));
    return bytes;
  };
  rows_ = touched(0, loops.row, kSums * product_.rows);
  columns_ = touched(1, loops.column, kSums * product_.columns);
  passing_rows_ = rateOf(static_cast<double>(bytesOf(nest, main.inputs[0])) * 3 / 2);
  passing_columns_ = rateOf(static_cast<double>(bytesOf(nest, main.inputs[1])) * 3 / 2);
}

double PieceFlow::stepCycles(const Piece& piece, int64_t rows, int64_t columns) const {
  const double loads = std::min(loadCycles(piece, rows, columns, true), loadCycles(piece, rows, columns, false));
  // No price: of pieces that take as long the one that loads less.
  constexpr double kHidden = 1e-3;
  return std::max({static_cast<double>(piece.products()) * product_.cycles, product_.latency_cycles, loads}) +
         kHidden * loads;
}

double PieceFlow::loadCycles(const Piece& piece, int64_t rows, int64_t columns, bool keeps_rows) const {
  const double row_bytes = static_cast<double>(piece.row_tiles) * tile_bytes_;
  const double column_bytes = static_cast<double>(piece.loads() - piece.row_tiles) * tile_bytes_;
  // Trees may ask for more than registers hold, and are refused later.
  const auto touched = [](const std::vector<double>& bytes, int64_t count) {
    return bytes[std::min<size_t>(count, bytes.size() - 1)];
  };
  return row_bytes / (keeps_rows ? rateOf(touched(rows_, rows)) : passing_rows_) +
         column_bytes / (keeps_rows ? passing_columns_ : rateOf(touched(columns_, columns)));
}

void choosePiece(const Nest& nest, const Chip& chip, const TileLoops& loops, const PieceFlow& flow, int64_t vectors,
                 TilePlan& plan) {
  const TileProduct& product = *productOf(nest);
  const int64_t rows = nest.extents[loops.row], columns = nest.extents[loops.column], depth = nest.extents[loops.depth];
  const int64_t deepest = product.depth / product.group;
  plan.tile[loops.depth] = ceilDiv(depth, ceilDiv(depth, deepest));
  if (vectors > std::min<int64_t>(ceilDiv(columns, plan.lanes), kSums * product.columns / plan.lanes)) vectors = 0;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t r = std::min<int64_t>(rows, kSums * product.rows); r >= 1; --r)
    for (int64_t c = std::min<int64_t>(columns, kSums * product.columns); c >= 1; --c) {
      if (ceilDiv(r, product.rows) * ceilDiv(c, product.columns) > kSums) continue;
      if (vectors > 0 && ceilDiv(c, plan.lanes) != vectors) continue;
      if (r * ceilDiv(c, plan.lanes) * plan.tile[loops.depth] > kMostInTile) continue;
      double cycles = 0;
      forTiles(rows, r, [&](int64_t sr, int64_t nr) {
        forTiles(columns, c, [&](int64_t sc, int64_t nc) {
          const Piece piece = pieceOf(product, sr, sc, plan.tile[loops.depth], depth);
          cycles += static_cast<double>(nr * nc) * flow.stepCycles(piece, sr, sc);
        });
      });
      // Pieces of another shape are more code, and tiles get their shapes anew.
      for (auto [extent, tile] : {std::pair(rows, r), {columns, c}})
        if (extent % tile != 0) cycles *= 1 + chip.prices().products().rest_share();
      // Columns in whole vectors.
      if (c < columns && c % plan.lanes != 0) cycles *= 1 + chip.prices().products().rest_share();
      if (cycles >= best * (1 - 1e-9)) continue;
      best = cycles;
      plan.tile[loops.row] = r;
      plan.tile[loops.column] = c;
    }
  plan.rows = static_cast<int>(plan.tile[loops.row]);
  plan.vectors = static_cast<int>(ceilDiv(plan.tile[loops.column], plan.lanes));
}

void blockPassing(const Nest& nest, const Chip& chip, int passing, TilePlan& plan) {
  const Operand &mine = nest.statements[0].inputs[passing], &other = nest.statements[0].inputs[1 - passing];
  const int64_t half = chip.stayingBytes(chip.second());
  int64_t bytes = bytesOf(nest, mine);
  for (int loop : plan.order)
    if (varies(mine, loop) && varies(other, loop)) bytes /= nest.extents[loop];
  if (bytes <= half * 3 / 2) return;
  const auto* outermost = llvm::find_if(plan.order, [&](int loop) {
    return varies(mine, loop) && !varies(other, loop) && nest.extents[loop] > plan.tile[loop];
  });
  if (outermost == plan.order.end()) return;
  const int64_t unit = plan.tile[*outermost], extent = nest.extents[*outermost];
  const int64_t block = ceilDiv(ceilDiv(extent, ceilDiv(bytes, half)), unit) * unit;
  if (block < extent) plan.block[*outermost] = block;
}

}  // namespace tessera::compiler::codegen
