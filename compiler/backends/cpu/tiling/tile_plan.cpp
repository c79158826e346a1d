#include "compiler/backends/cpu/tiling/tile_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/cost/load_balance.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {

namespace arith = mlir::arith;

int widestBits(const Nest& nest) {
  int bits = 8;  // i1 takes a byte in memory
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      bits = std::max(bits, elementBits(input.access.root ? input.access.element : input.scalar.getType()));
    for (const Operand& output : statement.outputs) bits = std::max(bits, elementBits(output.access.element));
  }
  return bits;
}

int lanesOf(const Nest& nest, const Chip& chip) { return chip.vectorBits() / widestBits(nest); }

TilePlan emptyPlan(const Nest& nest) {
  TilePlan plan;
  plan.tile.assign(nest.loops(), 1);
  plan.block.assign(nest.loops(), 0);
  return plan;
}

namespace {

/// The number of points of `loop` in the tile of a sum: `most`, or fewer so that no core is idle, provided that a grid
/// point still has enough work. `cost`: instructions of a step.
int64_t pointsForAllCores(const Nest& nest, const Chip& chip, const TilePlan& plan, int loop, int64_t most, int cost) {
  int64_t others = 1;
  double instructions = cost;
  for (int each = 0; each < nest.loops(); ++each) {
    const int64_t extent = nest.extents[each];
    instructions *= static_cast<double>(each == plan.vector_loop ? ceilDiv(extent, plan.lanes) : extent);
    if (!nest.reduction[each] && each != loop) others *= ceilDiv(extent, plan.tile[each]);
  }
  // Tiles along `loop` that give every core a grid point, together with the other loops.
  const int64_t extent = nest.extents[loop], tiles = std::min(extent, ceilDiv(chip.cores(), others));
  if (!nest.hasReduction() || ceilDiv(extent, most) >= tiles ||
      instructions / static_cast<double>(others * tiles) < chip.costParameters().grid().min_instructions())
    return most;
  return ceilDiv(extent, tiles);
}

}  // namespace

void chooseSimpleTile(const Nest& nest, const Chip& chip, TilePlan& plan) {
  plan.order = byOutputStride(nest);
  if (plan.lanes == 1) return;
  plan.transposed = transposedLoop(nest, plan.vector_loop, plan.lanes);
  if (plan.transposed >= 0) {  // the tile is one square of lanes x lanes elements
    plan.tile[plan.vector_loop] = std::min<int64_t>(nest.extents[plan.vector_loop], plan.lanes);
    plan.tile[plan.transposed] = std::min<int64_t>(nest.extents[plan.transposed], plan.lanes);
    plan.rows = static_cast<int>(plan.tile[plan.transposed]);
    return;
  }
  int cost = 0;
  for (const Statement& statement : nest.statements) cost += bodyCost(*statement.body());
  const int v = plan.vector_loop;
  const int64_t all = ceilDiv(nest.extents[v], plan.lanes);
  const v1::CostParameters::Tiles& parameters = chip.costParameters().tiles();
  int64_t points = nest.hasReduction() ? parameters.sums() : cost > parameters.heavy_body() ? 1 : parameters.vectors();
  int64_t vectors = std::min(all, points);
  if (plan.horizontal) {
    // A row has one sum and its vectors are the steps: enough rows are computed together to hide the latency of an
    // addition or a function.
    points = parameters.row_sums();
    vectors = std::min(all, cost >= chip.costParameters().vectors().long_body() ? 1 : parameters.vectors());
  } else {
    // The remaining points are rows, so that a tile keeps its number of independent sums.
    points /= vectors;
  }
  plan.tile[v] = std::min(nest.extents[v], vectors * plan.lanes);
  plan.vectors = static_cast<int>(vectors);
  for (int loop : llvm::reverse(plan.order)) {
    if (loop == v || points < 2) continue;
    plan.tile[loop] = pointsForAllCores(nest, chip, plan, loop, std::min(nest.extents[loop], points), cost);
    plan.rows = static_cast<int>(plan.tile[loop]);
    break;
  }
}

bool choosesInterleaving(const Nest& nest, const Chip& chip, const TilePlan& plan) {
  const v1::CostParameters::Vectors& parameters = chip.costParameters().vectors();
  const int64_t points = pointsOf(nest, plan);
  return plan.kernel->traits().interleaves && points > 1 && points <= parameters.interleaved_points() &&
         bodyCost(*nest.statements[0].body()) >= parameters.long_body();
}

void orderReductions(const Nest& nest, TilePlan& plan) {
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop]) plan.reductions.push_back(loop);
  auto step = [&](int loop) {
    int64_t largest = 0;
    for (const Operand& input : nest.statements[0].inputs)
      if (input.access.root) largest = std::max(largest, input.access.strides[loop]);
    return largest;
  };
  // Largest stride outside: the innermost sum then walks memory in order.
  sortBy(plan.reductions, [&](int loop) { return -step(loop); });
}

void unrollReductions(const Nest& nest, const Chip& chip, TilePlan& plan) {
  if (plan.lanes == 1) return;
  const v1::CostParameters::Tiles& parameters = chip.costParameters().tiles();
  // Each unrolled step has rows x vectors bodies, so large tiles unroll fewer steps.
  int64_t budget = std::max<int64_t>(1, parameters.unrolled_bodies() / std::max(1, plan.rows * plan.vectors));
  budget = std::min(budget, parameters.unrolled_steps());
  for (int loop : llvm::reverse(plan.reductions)) {
    if (loop == plan.vector_loop) break;
    const int64_t extent = nest.extents[loop];
    if (extent <= std::min(budget, parameters.unrolled_whole())) {
      plan.tile[loop] = extent;
      budget /= extent;
      continue;
    }
    int64_t unroll = std::min({parameters.unrolled_part(), budget, extent});
    // Prefers a divisor of at least half that size, so that no steps remain for a second loop.
    for (int64_t divisor = unroll; divisor >= 2; --divisor)
      if (extent % divisor == 0 && divisor * 2 >= unroll) {
        unroll = divisor;
        break;
      }
    plan.tile[loop] = std::max<int64_t>(1, unroll);
    break;
  }
}

double bodiesOfTile(const Nest& nest, const TilePlan& plan) {
  double inside = 1;
  for (const Statement& statement : nest.statements) inside += bodyCost(*statement.body());
  inside *= static_cast<double>(plan.rows) * plan.vectors;
  for (int loop : plan.reductions)
    inside *=
        static_cast<double>(loop == plan.vector_loop ? ceilDiv(nest.extents[loop], plan.lanes) : nest.extents[loop]);
  return inside;
}

namespace {

/// Instructions of a grid point that consists of the first `levels` levels.
double pointCost(const Nest& nest, const TilePlan& plan, int levels) {
  double inside = plan.kernel->instructions(nest, plan);
  // The levels inside of a grid point run in full for each point.
  for (size_t level = levels; level < plan.levels.size(); ++level)
    inside *= static_cast<double>(plan.count(nest, static_cast<int>(level)));
  return inside;
}

}  // namespace

double imbalanceShare(const Chip& chip, int64_t points) {
  const int64_t cores = chip.cores();
  if (cores <= chip.costParameters().grid().balanced_threads()) return 0;
  return loadImbalance(points, cores) - 1;
}

void chooseGrid(const Nest& nest, const Chip& chip, TilePlan& plan) {
  plan.grid_levels = 0;
  const bool copies = llvm::any_of(plan.packed, [](const PackedOperand& packed) { return packed.within; });
  const int most = copies ? plan.copy_level : static_cast<int>(plan.levels.size());
  // Only parallel levels can belong to the grid, and none inside of copies that are made block by block.
  while (plan.grid_levels < most && !nest.reduction[plan.levels[plan.grid_levels].loop]) ++plan.grid_levels;
  // Drops the innermost grid level until a point has enough work. If cores would idle, less work is enough.
  for (int64_t points = gridOf(nest, plan); plan.grid_levels > 1; --plan.grid_levels) {
    const int64_t count = plan.count(nest, plan.grid_levels - 1);
    points /= count;
    const double whole = chip.costParameters().grid().min_instructions();
    const bool scarce =
        points < chip.minParts() || imbalanceShare(chip, points) > chip.costParameters().grid().max_idle_share();
    const double least = count > 1 && scarce ? chip.costParameters().grid().min_instructions_if_few_parts() : whole;
    if (pointCost(nest, plan, plan.grid_levels) >= least) break;
  }
}

int64_t copiedAlong(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, int loop) {
  if (packed.within)
    for (int level = plan.copy_level; level-- > 0;)
      if (plan.levels[level].loop == loop) return plan.levels[level].step;
  return nest.extents[loop];
}

int64_t elementsOfRow(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, llvm::ArrayRef<int> loops) {
  int64_t elements = 1;
  for (int loop : llvm::reverse(loops)) {
    if (loop == packed.loop) break;
    elements *= copiedAlong(nest, plan, packed, loop);
  }
  return elements;
}

std::string refusedDistance(const Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                            llvm::ArrayRef<int> loops) {
  constexpr int64_t kMaxRows = 16, kPage = 4096;
  if (!packed.strided_copy) return packed.distance == 0 ? "" : "none: panels have no rows";
  const int64_t least = elementsOfRow(nest, plan, packed, loops), most = std::max(kPage, kMaxRows * least);
  return packed.distance >= least && packed.distance <= most ? "" : absl::StrCat(least, " to ", most);
}

int64_t pointsAlong(const TilePlan& plan, int loop) {
  return loop == plan.vector_loop ? ceilDiv(plan.tile[loop], plan.lanes) : plan.tile[loop];
}

int64_t pointsOf(const Nest& nest, const TilePlan& plan) {
  int64_t points = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) points *= pointsAlong(plan, loop);
  return points;
}

int64_t TilePlan::walkedBy(const Nest& nest, int level) const {
  const int loop = levels[level].loop;
  for (int outer = level; outer-- > 0;)
    if (levels[outer].loop == loop) return levels[outer].step;
  return nest.extents[loop];
}

int64_t TilePlan::count(const Nest& nest, int level) const {
  return ceilDiv(walkedBy(nest, level), levels[level].step);
}

void TilePlan::orderLevels(int first_blocked) {
  levels.clear();
  for (int position = 0; position <= static_cast<int>(order.size()); ++position) {
    // Blocks of parallel loops first, then those of reductions; all of them outside of the tile levels that they
    // enclose.
    if (position == first_blocked) {
      for (int loop : order)
        if (block[loop] > 0) levels.push_back({loop, block[loop]});
      for (int loop : reductions)
        if (block[loop] > 0) levels.push_back({loop, block[loop]});
      copy_level = static_cast<int>(levels.size());
    }
    if (position < static_cast<int>(order.size())) levels.push_back({order[position], tile[order[position]]});
  }
}

bool isContraction(const Nest& nest) {
  const Statement& main = nest.statements[0];
  if (!nest.hasReduction() || main.outputs.size() != 1 || main.inputs.size() != 2) return false;
  if (main.step) return true;  // an instruction accepts products only
  // The body must yield accumulator + x * y, and must use the accumulator for nothing else.
  mlir::Value yielded = main.body()->getTerminator()->getOperand(0);
  mlir::Operation* sum = yielded.getDefiningOp();
  if (!sum || !llvm::isa<arith::AddFOp, arith::AddIOp>(sum)) return false;
  mlir::Value accumulator = main.body()->getArgument(2);
  if (!accumulator.hasOneUse()) return false;
  mlir::Value term = sum->getOperand(0) == accumulator ? sum->getOperand(1) : sum->getOperand(0);
  if (sum->getOperand(0) != accumulator && sum->getOperand(1) != accumulator) return false;
  mlir::Operation* product = term.getDefiningOp();
  return product && llvm::isa<arith::MulFOp, arith::MulIOp>(product);
}

void splitGrid(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const int64_t points = gridOf(nest, plan);
  const int level = plan.grid_levels;
  if (points >= chip.minParts() || level == 0 || level >= static_cast<int>(plan.levels.size()) || isContraction(nest) ||
      plan.kernel->traits().tile == KernelTraits::Tile::kWholeBlock ||
      llvm::any_of(plan.block, [](int64_t block) { return block > 0; }))
    return;
  const auto [loop, step] = plan.levels[level];
  if (nest.reduction[loop] || nest.extents[loop] % step != 0) return;
  const int64_t tiles = nest.extents[loop] / step;
  const double cost = pointCost(nest, plan, level + 1);
  const v1::CostParameters::Grid& parameters = chip.costParameters().grid();
  // Tries ever smaller parts that divide the level evenly, until there are enough parts or a part has too little work.
  int64_t each = tiles;
  for (int64_t size = tiles / 2; size > 1 && points * (tiles / each) < chip.minParts(); --size) {
    // No more grid points than cores: another cut still helps, so that less work per point is acceptable.
    const bool scarce = chip.cores() > std::max<int64_t>(parameters.balanced_threads(), points * (tiles / each) - 1);
    const double least = scarce ? parameters.min_instructions_if_few_parts() : parameters.min_instructions();
    if (tiles % size == 0 && static_cast<double>(size) * cost >= least) each = size;
  }
  if (each == tiles) return;
  plan.block[loop] = each * step;
  plan.levels.insert(plan.levels.begin() + level, {loop, plan.block[loop]});
  ++plan.grid_levels;
}

int64_t gridOf(const Nest& nest, const TilePlan& plan) {
  int64_t grid = 1;
  for (int level = 0; level < plan.grid_levels; ++level) grid *= plan.count(nest, level);
  return grid;
}

}  // namespace tessera::compiler::codegen
