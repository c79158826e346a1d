#include "compiler/backends/cpu/kernel/macro_tile.h"

#include <algorithm>
#include <array>
#include <limits>

#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"
#include "compiler/target/tile_product.h"

namespace tessera::compiler::codegen {
namespace {

MacroTile productMacroTile(const TileProduct& product, const MacroTileLoops& loops, llvm::ArrayRef<int64_t> sizes,
                           int64_t depth, int64_t steps) {
  MacroTile macro_tile;
  const int64_t rows = sizes[loops.row], columns = sizes[loops.column];
  const int64_t row_tiles = ceilDiv(rows, product.rows), column_tiles = ceilDiv(columns, product.columns);
  // Tiles of equal height and width: one more row than a multiple costs no tile with a single row.
  macro_tile.rows = ceilDiv(rows, row_tiles);
  macro_tile.columns = ceilDiv(columns, column_tiles);
  macro_tile.row_tiles = row_tiles * outerSize(loops.outer_row, sizes);
  macro_tile.all_columns = column_tiles * outerSize(loops.outer_column, sizes);
  // The columns whose sums fit in the sum registers together with all rows; more columns take several column passes.
  macro_tile.column_tiles = std::clamp<int64_t>(kSums / macro_tile.row_tiles, 1, macro_tile.all_columns);
  macro_tile.depth = depth;
  macro_tile.last = steps % depth;
  return macro_tile;
}

/// Steps of the whole sum; a step has `depth` iterations of the innermost loop.
double stepsOf(const Nest& nest, int innermost, int64_t depth) {
  double steps = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop])
      steps *= static_cast<double>(loop == innermost ? ceilDiv(nest.extents[loop], depth) : nest.extents[loop]);
  return steps;
}

/// Bytes of one tile of sums.
int64_t sumBytes(const TileProduct& product) { return int64_t{product.rows} * product.columns * 4; }

}  // namespace

const TileProduct* productOf(const Nest& nest) {
  const auto& step = nest.statements[0].step;
  return step ? step->tiles() : nullptr;
}

MacroTile macroTileOf(const Nest& nest, const MacroTileLoops& loops, llvm::ArrayRef<int64_t> sizes, int64_t depth) {
  return productMacroTile(*productOf(nest), loops, sizes, depth, nest.extents[loops.depth]);
}

bool columnPassesAreWhole(const Nest& nest, const MacroTileLoops& loops, llvm::ArrayRef<int64_t> sizes, int lanes) {
  const MacroTile macro_tile = macroTileOf(nest, loops, sizes, sizes[loops.depth]);
  return macro_tile.columnPasses() == 1 ||
         (sizes[loops.column] % macro_tile.columns == 0 && macro_tile.columns % lanes == 0);
}

MacroTileCostModel::MacroTileCostModel(const Nest& nest, const Chip& chip, const MacroTileLoops& loops)
    : product_(*productOf(nest)),
      tile_bytes_(static_cast<double>(product_.rows) * product_.depth / product_.group * 4),
      kept_most_(static_cast<double>(chip.residentBytes(chip.near()) - kSums * sumBytes(product_))),
      near_(chip.near().bytes_per_cycle),
      beyond_(chip.beyondNear().sustained_per_cycle),
      run_cycles_(chip.costParameters().overheads().run_cycles()),
      steps_(stepsOf(nest, loops.depth, product_.depth / product_.group)),
      rows_(sideOf(nest, chip, 0, loops)),
      columns_(sideOf(nest, chip, 1, loops)) {}

MacroTileCostModel::Side MacroTileCostModel::sideOf(const Nest& nest, const Chip& chip, int input,
                                                    const MacroTileLoops& loops) const {
  const Operand& operand = nest.statements[0].inputs[input];
  Side side;
  const int inner = side.inner = input == 0 ? loops.row : loops.column;
  const int outer = side.outer = input == 0 ? loops.outer_row : loops.outer_column;
  const int64_t most = int64_t{kSums} * std::max(product_.rows, product_.columns);
  // Precomputed for all sizes, since the search over macro-tiles asks for the same sizes many times.
  for (int64_t n = 0; n <= std::min(nest.extents[inner], most); ++n) {
    std::vector<Runs>& touched = side.touched.emplace_back();
    for (int64_t m = 0; m <= (outer < 0 ? 1 : std::min<int64_t>(nest.extents[outer], kSums)); ++m) {
      const LoopSteps steps[] = {{inner, n}, {outer, m}};
      touched.push_back(touchedRuns(nest, operand, llvm::ArrayRef(steps, outer < 0 ? 1 : 2)));
    }
  }
  // Rows of a tile that evict each other, or are far apart, are loaded from beyond the near level each time.
  const int64_t apart_bytes = strideBytes(nest, input, inner);
  const bool apart =
      input == 0 && (evictEachOther(chip, std::min<int64_t>(nest.extents[inner], product_.rows), apart_bytes) ||
                     chip.areFarApart(apart_bytes, nest.extents[loops.depth] * 4));
  side.resident_rate = apart ? beyond_ : near_;
  side.streamed_rate = std::min(side.resident_rate, rateOf(static_cast<double>(bytesOf(nest, operand)) * 3 / 2));
  return side;
}

const Runs& MacroTileCostModel::Side::touchedBy(llvm::ArrayRef<int64_t> sizes) const {
  // Trees may request more than the registers hold; they are refused later.
  const auto& along = touched[std::min<size_t>(sizes[inner], touched.size() - 1)];
  return along[std::min<size_t>(outerSize(outer, sizes), along.size() - 1)];
}

double MacroTileCostModel::stepCycles(const MacroTile& macro_tile, llvm::ArrayRef<int64_t> sizes) const {
  const double loads = std::min(loadCycles(macro_tile, sizes, true), loadCycles(macro_tile, sizes, false));
  double fetched = 0;
  for (const Side* side : {&rows_, &columns_}) {
    const Runs& runs = side->touchedBy(sizes);
    fetched += static_cast<double>(runs.bytes()) / beyond_ + static_cast<double>(runs.count) * run_cycles_;
  }
  // A tie-breaker, not a cost: among macro-tiles of equal time, prefers the one that loads less, from nearer levels, in
  // fewer runs.
  constexpr double kHidden = 1e-3;
  const double pass_cycles =
      std::max({static_cast<double>(macro_tile.products()) * product_.cycles, product_.latency_cycles, loads});
  // The products, the latency between two products of one sum, or the loads limit a column pass.
  return static_cast<double>(macro_tile.columnPasses()) * pass_cycles + kHidden * (loads + fetched / steps_);
}

double MacroTileCostModel::residentRate(const Side& side, llvm::ArrayRef<int64_t> sizes) const {
  return std::min(side.resident_rate, rateOf(static_cast<double>(side.touchedBy(sizes).bytes())));
}

double MacroTileCostModel::loadCycles(const MacroTile& macro_tile, llvm::ArrayRef<int64_t> sizes,
                                      bool keeps_rows) const {
  const double row_bytes = static_cast<double>(macro_tile.row_tiles) * tile_bytes_;
  const double column_bytes = static_cast<double>(macro_tile.loads() - macro_tile.row_tiles) * tile_bytes_;
  return row_bytes / (keeps_rows ? residentRate(rows_, sizes) : rows_.streamed_rate) +
         column_bytes / (keeps_rows ? columns_.streamed_rate : residentRate(columns_, sizes));
}

namespace {

/// A candidate macro-tile, by the sizes of its loops.
struct Candidate {
  MacroTileLoops loops;
  llvm::SmallVector<int64_t> sizes;  ///< of all loops of the nest
};

/// Cycles of the products of all macro-tiles of the nest, if it is cut into macro-tiles of this candidate.
double cyclesOf(const Nest& nest, const Chip& chip, const MacroTileCostModel& flow, const Candidate& candidate,
                int lanes) {
  const MacroTileLoops& loops = candidate.loops;
  const double remainder_share = chip.costParameters().products().remainder_share();
  // Full and edge macro-tiles along each of the loops.
  const std::array<int, 4> along{loops.outer_row, loops.row, loops.outer_column, loops.column};
  llvm::SmallVector<int64_t> sizes = candidate.sizes;
  const auto sum = [&](auto& self, size_t place, double times) -> double {
    if (place == along.size())
      return times * flow.stepCycles(macroTileOf(nest, loops, sizes, sizes[loops.depth]), sizes);
    const int loop = along[place];
    if (loop < 0) return self(self, place + 1, times);
    double cycles = 0;
    forTiles(nest.extents[loop], candidate.sizes[loop], [&](int64_t size, int64_t count) {
      sizes[loop] = size;
      cycles += self(self, place + 1, times * static_cast<double>(count));
    });
    return cycles;
  };
  double others = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop] && !llvm::is_contained(along, loop)) others *= static_cast<double>(nest.extents[loop]);
  double cycles = sum(sum, 0, others);
  // Pieces of another shape need more code, and the tile registers are reconfigured for them.
  for (int loop : along)
    if (loop >= 0 && nest.extents[loop] % candidate.sizes[loop] != 0) cycles *= 1 + remainder_share;
  // Prefers columns in whole vectors.
  if (candidate.sizes[loops.column] < nest.extents[loops.column] && candidate.sizes[loops.column] % lanes != 0)
    cycles *= 1 + remainder_share;
  return cycles;
}

/// Calls fn for the sizes of a macro-tile along a loop and the loop outside of it: every size if there is only the
/// inner loop; with both, only sizes that fill tiles or divide the inner loop into equal parts.
template <typename Fn>
void forSizes(const Nest& nest, int inner, int outer, int64_t tile, Fn fn) {
  const int64_t extent = nest.extents[inner];
  if (outer < 0) {
    for (int64_t size = std::min(extent, kSums * tile); size >= 1; --size) fn(size, 1);
    return;
  }
  for (int64_t tiles = 1; 2 * tiles <= kSums; ++tiles) {
    const int64_t full = std::min(extent, tiles * tile), even = ceilDiv(extent, ceilDiv(extent, full));
    for (int64_t count = std::min<int64_t>(nest.extents[outer], kSums / tiles); count >= 2; --count) {
      fn(full, count);
      if (even != full) fn(even, count);
    }
    if (full == extent) return;
  }
}

}  // namespace

MacroTileLoops chooseMacroTile(const Nest& nest, const Chip& chip, int64_t vectors, TilePlan& plan) {
  const TileProduct& product = *productOf(nest);
  const std::vector<MacroTileLoops> possible = possibleMacroTileLoops(nest);
  MacroTileLoops chosen = possible.front();
  const int64_t depth = nest.extents[chosen.depth], deepest = product.depth / product.group;
  plan.tile[chosen.depth] = ceilDiv(depth, ceilDiv(depth, deepest));
  if (vectors >
      std::min<int64_t>(ceilDiv(nest.extents[chosen.column], plan.lanes), kSums * product.columns / plan.lanes))
    vectors = 0;
  const llvm::SmallVector<int64_t> none = plan.tile;
  double best = std::numeric_limits<double>::infinity();
  for (const MacroTileLoops& loops : possible) {
    const MacroTileCostModel flow(nest, chip, loops);
    Candidate candidate{loops, none};
    auto& sizes = candidate.sizes;
    forSizes(nest, loops.row, loops.outer_row, product.rows, [&](int64_t rows, int64_t outer_rows) {
      forSizes(nest, loops.column, loops.outer_column, product.columns, [&](int64_t columns, int64_t outer_columns) {
        if (vectors > 0 && ceilDiv(columns, plan.lanes) != vectors) return;
        sizes[loops.row] = rows;
        sizes[loops.column] = columns;
        if (loops.outer_row >= 0) sizes[loops.outer_row] = outer_rows;
        if (loops.outer_column >= 0) sizes[loops.outer_column] = outer_columns;
        const MacroTile macro_tile = macroTileOf(nest, loops, sizes, sizes[loops.depth]);
        if (macro_tile.products() > kSums || macro_tile.columnPasses() > 1) return;
        const double cycles = cyclesOf(nest, chip, flow, candidate, plan.lanes);
        if (cycles >= best * (1 - 1e-9)) return;
        best = cycles;
        chosen = loops;
        plan.tile = sizes;
      });
    });
  }
  return chosen;
}

void splitIntoColumnPasses(const Nest& nest, const Chip& chip, bool fixed, MacroTileLoops& loops, TilePlan& plan) {
  constexpr int64_t kMaxColumnPasses =
      4;  // each pass is code of its own, as the work of the previous pass runs inside it
  // A single step is too short to interleave other work with it, and tiles of all column passes must have the same
  // shapes.
  const int64_t columns = plan.tile[loops.column];
  if (stepsOf(nest, loops.depth, plan.tile[loops.depth]) < 2 || columns % plan.lanes != 0) return;
  int64_t macro_tiles = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) macro_tiles *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  const auto extend = [&](int loop) {
    const int64_t size = plan.tile[loop];
    for (int64_t passes = kMaxColumnPasses; passes > 1; --passes) {
      if (nest.extents[loop] % (size * passes) != 0 || macro_tiles < passes * chip.minParts()) continue;
      plan.tile[loop] = size * passes;
      if (pointsOf(nest, plan) <= kMaxInTile && columnPassesAreWhole(nest, loops, plan.tile, plan.lanes)) return true;
      plan.tile[loop] = size;
    }
    return false;
  };
  if (!fixed && columns < nest.extents[loops.column] && extend(loops.column)) return;
  // The loop of columns cannot grow: tries the longest outer loop of columns instead.
  const int before = loops.outer_column;
  for (const MacroTileLoops& other : possibleMacroTileLoops(nest))
    if (before < 0 && other.outer_column >= 0 &&
        (loops.outer_column < 0 || nest.extents[other.outer_column] > nest.extents[loops.outer_column]))
      loops.outer_column = other.outer_column;
  if (loops.outer_column >= 0 && !extend(loops.outer_column)) loops.outer_column = before;
}

void blockStreamedOperand(const Nest& nest, const Chip& chip, int streamed, TilePlan& plan) {
  const Operand &mine = nest.statements[0].inputs[streamed], &other = nest.statements[0].inputs[1 - streamed];
  // The part of L2 that an operand may occupy while the other one is streamed.
  const int64_t half = chip.residentOperandBytes(chip.second());
  int64_t bytes = bytesOf(nest, mine);
  for (int loop : plan.order)
    if (varies(mine, loop) && varies(other, loop)) bytes /= nest.extents[loop];
  if (bytes <= half * 3 / 2) return;
  const auto* outermost = llvm::find_if(plan.order, [&](int loop) {
    return varies(mine, loop) && !varies(other, loop) && nest.extents[loop] > plan.tile[loop];
  });
  if (outermost == plan.order.end()) return;
  const int64_t unit = plan.tile[*outermost], extent = nest.extents[*outermost];
  // At least two macro-tiles per block: a block of one macro-tile would not be a separate level of the tree.
  const int64_t block = std::max<int64_t>(2, ceilDiv(ceilDiv(extent, ceilDiv(bytes, half)), unit)) * unit;
  if (block < extent) plan.block[*outermost] = block;
}

}  // namespace tessera::compiler::codegen
