#include "compiler/codegen/tiling/tile_plan.h"

#include <algorithm>
#include <limits>

#include "compiler/codegen/emit/body.h"
#include "compiler/codegen/emit/reduction.h"
#include "compiler/codegen/emit/separable.h"
#include "compiler/codegen/emit/strided_load.h"
#include "compiler/codegen/tiling/contraction_plan.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;

/// Bits of the widest element the nest touches: it decides how many lanes a vector has.
int widestBits(const Nest& nest) {
  int bits = 8;
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      bits = std::max(bits, elementBits(input.access.root ? input.access.element : input.scalar.getType()));
    for (const Operand& output : statement.outputs) bits = std::max(bits, elementBits(output.access.element));
  }
  return bits;
}

/// Whether inputs along `loop` can be turned in registers: another parallel loop walks them one by one.
bool canTurn(const Nest& nest, const Operand& operand, int loop, int lanes) {
  if (lanes > 16 || operand.access.element.isInteger(1) || operand.access.element.isIndex()) return false;
  for (int other = 0; other < nest.loops(); ++other)
    if (other != loop && !nest.reduction[other] && nest.extents[other] >= lanes / 2 &&
        operand.access.strides[other] == 1)
      return true;
  return false;
}

/// Uses of one element of `operand`: iterations of the parallel loops it does not walk.
double reuseOf(const Nest& nest, const Operand& operand) {
  double uses = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop] && !varies(operand, loop)) uses *= static_cast<double>(nest.extents[loop]);
  return uses;
}

/// Cost in vector instructions per element of making `loop` the vector loop. Strided operands are taken apart
/// lane by lane, turned in registers, or, in a contraction, packed before. Outputs of a reduction are touched
/// once for all its steps, and a register tile of a contraction reads its operands once for several results.
double vectorLoopCost(const Nest& nest, const v1::Prices& prices, int loop, int lanes, bool contraction) {
  const v1::Prices::Vectors& vectors = prices.vectors();
  double cost = 0, steps = 1;
  for (int other = 0; other < nest.loops(); ++other)
    if (nest.reduction[other]) steps *= static_cast<double>(nest.extents[other]);
  bool tiled = contraction;
  for (const Operand& input : nest.statements[0].inputs) tiled &= reuseOf(nest, input) >= 4;
  const double contiguous = tiled ? vectors.shared_load() : 1;
  auto charge = [&](const Operand& operand, bool parallel_only, bool output, int input) {
    if (!operand.access.root || operand.from || (parallel_only && nest.reduction[loop])) return;
    const int64_t stride = operand.access.strides[loop];
    const double reads = parallel_only ? 1 / steps : 1;  // followers read once for all steps of the reduction
    if (stride == 0 || stride == 1) {
      cost += output ? 1 / steps : contiguous * reads;
      return;
    }
    double strided = (output ? vectors.strided_store() : vectors.strided_load()) * lanes;
    if (contraction && input >= 0 && canPack(nest, input))
      strided = std::min(strided, contiguous + prices.copies().pack_instructions() * lanes / reuseOf(nest, operand));
    if (!nest.hasReduction() && !output && canTurn(nest, operand, loop, lanes))
      strided = std::min(strided, vectors.turned_load());
    if (!output && loadsWholeVectors(stride, lanes))
      strided = std::min(strided, contiguous * static_cast<double>(stridedLoadCost(stride)));
    cost += output ? (steps > 1 ? 3 : 1) * strided / steps : strided * reads;
  };
  for (const Statement& statement : nest.statements) {
    const bool main = &statement == nest.statements.data();
    for (auto [i, input] : llvm::enumerate(statement.inputs))
      charge(input, !main, false, main ? static_cast<int>(i) : -1);
    for (const Operand& output : statement.outputs) charge(output, true, true, -1);
  }
  if (nest.reduction[loop]) cost += vectors.combine() * lanes / static_cast<double>(nest.extents[loop]) + 0.5;
  const double used = static_cast<double>(nest.extents[loop]) / (ceilDiv(nest.extents[loop], lanes) * lanes);
  return cost / (lanes * used);
}

void chooseVectorLoop(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const int lanes = lanesOf(nest, chip);
  if (lanes < 2 || !llvm::all_of(nest.statements, [](const Statement& s) { return isVectorizableBody(*s.body()); }))
    return;
  const bool can_combine = canCombineLanes(nest), contraction = isContraction(nest);
  double best = std::numeric_limits<double>::infinity();
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.extents[loop] == 1 || (nest.reduction[loop] && !can_combine)) continue;
    const double cost = vectorLoopCost(nest, chip.prices(), loop, lanes, contraction);
    if (cost < best - 1e-9) {
      best = cost;
      plan.vector_loop = loop;
    }
  }
  // Scalar code spends one instruction an operand; a vector of two lanes may not be worth it.
  if (plan.vector_loop < 0) return;
  plan.lanes = lanes;
  plan.horizontal = nest.reduction[plan.vector_loop];
}

/// A parallel loop along which an operand that is strided along the vector loop is contiguous; -1: none.
int turnedLoop(const Nest& nest, const TilePlan& plan) {
  if (plan.lanes == 1 || nest.hasReduction()) return -1;
  for (const Statement& statement : nest.statements)
    for (const Operand& input : statement.inputs) {
      if (!input.access.root || input.from) continue;
      const int64_t stride = input.access.strides[plan.vector_loop];
      if (stride == 0 || stride == 1 || !canTurn(nest, input, plan.vector_loop, plan.lanes)) continue;
      for (int loop = 0; loop < nest.loops(); ++loop)
        if (loop != plan.vector_loop && input.access.strides[loop] == 1) return loop;
    }
  return -1;
}

/// Everything else: a few independent vectors at a time hide latency; more of them when a body is cheap.
void chooseSimpleTile(const Nest& nest, TilePlan& plan) {
  plan.order = byOutputStride(nest);
  if (plan.lanes == 1) return;
  plan.transposed = turnedLoop(nest, plan);
  if (plan.transposed >= 0) {  // a square of lanes x lanes elements
    plan.tile[plan.vector_loop] = std::min<int64_t>(nest.extents[plan.vector_loop], plan.lanes);
    plan.tile[plan.transposed] = std::min<int64_t>(nest.extents[plan.transposed], plan.lanes);
    plan.rows = static_cast<int>(plan.tile[plan.transposed]);
    return;
  }
  int cost = 0;
  for (const Statement& statement : nest.statements) cost += bodyCost(*statement.body());
  const int v = plan.vector_loop;
  const int64_t all = ceilDiv(nest.extents[v], plan.lanes);
  int64_t points = nest.hasReduction() ? 8 : cost > 24 ? 1 : 4;
  int64_t vectors = std::min(all, points);
  if (plan.horizontal) {
    // A row has one sum, vectors are its steps: as many rows as hide the latency of an addition, or of a function.
    points = 4;
    vectors = std::min<int64_t>(all, cost >= kLongBody ? 1 : 4);
  } else {
    points /= vectors;
  }
  plan.tile[v] = std::min(nest.extents[v], vectors * plan.lanes);
  plan.vectors = static_cast<int>(vectors);
  for (int loop : llvm::reverse(plan.order)) {
    if (loop == v || points < 2) continue;
    plan.tile[loop] = std::min(nest.extents[loop], points);
    plan.rows = static_cast<int>(plan.tile[loop]);
    break;
  }
}

/// Reduction loops, the one with the largest steps outermost, and how far each is unrolled: short inner ones
/// entirely, a long innermost one by four, within a bound on the code's size.
void chooseReductions(const Nest& nest, TilePlan& plan) {
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop]) plan.reductions.push_back(loop);
  auto step = [&](int loop) {
    int64_t largest = 0;
    for (const Operand& input : nest.statements[0].inputs)
      if (input.access.root) largest = std::max(largest, input.access.strides[loop]);
    return largest;
  };
  sortBy(plan.reductions, [&](int loop) { return -step(loop); });
  if (plan.lanes == 1) return;
  int64_t budget = std::max<int64_t>(1, 256 / std::max(1, plan.rows * plan.vectors));
  budget = std::min<int64_t>(budget, 16);
  if (plan.sliding) {  // a window of nine is unrolled, of a larger one its rows
    const int along = plan.reductions.back();
    int64_t steps = 1;
    for (int loop : plan.reductions) steps *= nest.extents[loop];
    for (int loop : plan.reductions)
      if (loop == along || steps <= 9) plan.tile[loop] = nest.extents[loop];
    return;
  }
  constexpr int64_t kUnrolled = 4;
  for (int loop : llvm::reverse(plan.reductions)) {
    if (loop == plan.vector_loop) break;
    const int64_t extent = nest.extents[loop];
    if (extent <= budget && extent <= 7) {
      plan.tile[loop] = extent;
      budget /= extent;
      continue;
    }
    int64_t unroll = std::min({kUnrolled, budget, extent});
    for (int64_t divisor = unroll; divisor >= 2; --divisor)
      if (extent % divisor == 0 && divisor * 2 >= unroll) {
        unroll = divisor;
        break;
      }
    plan.tile[loop] = std::max<int64_t>(1, unroll);
    break;
  }
}

/// Instructions of a grid point of the first `levels` levels.
double pointCost(const Nest& nest, const TilePlan& plan, int levels) {
  double inside = 1;
  for (const Statement& statement : nest.statements) inside += bodyCost(*statement.body());
  inside *= static_cast<double>(plan.rows) * plan.vectors;
  for (int loop : plan.reductions)
    inside *=
        static_cast<double>(loop == plan.vector_loop ? ceilDiv(nest.extents[loop], plan.lanes) : nest.extents[loop]);
  // A block of a transform costs a few instructions an element, not a sum for each.
  if (plan.strategy == kTransformStrategy) inside = 6.0 * plan.rows;
  for (size_t level = levels; level < plan.levels.size(); ++level)
    inside *= static_cast<double>(plan.count(nest, static_cast<int>(level)));
  return inside;
}

/// As many outer loops as leave a few thousand instructions for one grid point, or an eighth of that where there would
/// be too few points to share.
void chooseGrid(const Nest& nest, const Chip& chip, TilePlan& plan) {
  plan.grid_levels = 0;
  const bool copies = llvm::any_of(plan.packed, [](const PackedOperand& packed) { return packed.within; });
  const int most = copies ? plan.copy_level : static_cast<int>(plan.levels.size());
  while (plan.grid_levels < most && !nest.reduction[plan.levels[plan.grid_levels].loop]) ++plan.grid_levels;
  for (int64_t points = gridOf(nest, plan); plan.grid_levels > 1; --plan.grid_levels) {
    const int64_t count = plan.count(nest, plan.grid_levels - 1);
    points /= count;
    const double whole = chip.prices().grid().least_instructions();
    const double least = count > 1 && points < chip.enoughParts() ? whole / 8 : whole;
    if (pointCost(nest, plan, plan.grid_levels) >= least) break;
  }
}

/// Loops of the panels of `packed`, slowest first: those of the plan that the operand walks, panels, reductions.
llvm::SmallVector<int> panelOrder(const Nest& nest, const TilePlan& plan, const PackedOperand& packed) {
  const Operand& operand = nest.statements[0].inputs[packed.input];
  llvm::SmallVector<int> loops;
  for (int loop : plan.order)
    if (loop != packed.loop && varies(operand, loop)) loops.push_back(loop);
  loops.push_back(packed.loop);
  for (int loop : plan.reductions)
    if (loop != packed.loop && varies(operand, loop)) loops.push_back(loop);
  return loops;
}

TilePlan emptyPlan(const Nest& nest) {
  TilePlan plan;
  plan.tile.assign(nest.loops(), 1);
  plan.block.assign(nest.loops(), 0);
  return plan;
}

}  // namespace

int lanesOf(const Nest& nest, const Chip& chip) { return chip.vectorBits() / widestBits(nest); }

int64_t TilePlan::count(const Nest& nest, int level) const {
  const auto [loop, step] = levels[level];
  const bool within_block = block[loop] > 0 && step == tile[loop];
  return ceilDiv(within_block ? block[loop] : nest.extents[loop], step);
}

void TilePlan::orderLevels(int first_blocked) {
  levels.clear();
  for (int position = 0; position <= static_cast<int>(order.size()); ++position) {
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
  if (main.grouped) return true;
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

TilePlan planScalar(const Nest& nest, const Chip& chip) {
  TilePlan plan = emptyPlan(nest);
  chooseSimpleTile(nest, plan);
  plan.points = plan.order;
  chooseReductions(nest, plan);
  plan.orderLevels(0);
  chooseGrid(nest, chip, plan);
  plan.strategy = kScalarStrategy;
  return plan;
}

TilePlan planTile(const Nest& nest, const Chip& chip, const Wanted& wanted) {
  TilePlan plan = emptyPlan(nest);
  auto transform = separableTransform(nest);
  if (transform && planTransform(nest, *transform, lanesOf(nest, chip), plan)) {
    chooseGrid(nest, chip, plan);
    return plan;
  }
  chooseVectorLoop(nest, chip, plan);
  if (plan.lanes == 1) return planScalar(nest, chip);
  const bool contraction = isContraction(nest);
  const bool dots = plan.horizontal && llvm::all_of(nest.statements[0].inputs, [&](const Operand& input) {
                      return input.access.root && !input.from && varies(input, plan.vector_loop);
                    });
  const bool tiled = contraction && (!plan.horizontal || dots);
  if (tiled) {
    planContraction(nest, chip, wanted, plan);
  } else {
    chooseSimpleTile(nest, plan);
  }
  if (plan.points.empty()) plan.points = plan.order;
  chooseReductions(nest, plan);
  if (tiled) {
    planMemory(nest, chip, wanted, plan);
  } else {
    plan.orderLevels(0);
  }
  for (PackedOperand& packed : plan.packed) packed.order = panelOrder(nest, plan, packed);
  chooseGrid(nest, chip, plan);
  plan.strategy = contraction ? "contraction" : nest.hasReduction() ? "reduction" : "elementwise";
  return plan;
}

void splitGrid(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const int64_t points = gridOf(nest, plan);
  const int level = plan.grid_levels;
  if (points >= chip.enoughParts() || level == 0 || level >= static_cast<int>(plan.levels.size()) ||
      isContraction(nest) || plan.strategy == kTransformStrategy ||
      llvm::any_of(plan.block, [](int64_t block) { return block > 0; }))
    return;
  const auto [loop, step] = plan.levels[level];
  if (nest.reduction[loop] || nest.extents[loop] % step != 0) return;
  const int64_t tiles = nest.extents[loop] / step;
  const double cost = pointCost(nest, plan, level + 1);
  int64_t each = tiles;
  for (int64_t size = tiles / 2; size > 1 && points * (tiles / each) < chip.enoughParts(); --size)
    if (tiles % size == 0 && static_cast<double>(size) * cost >= chip.prices().grid().least_instructions()) each = size;
  if (each == tiles) return;
  plan.block[loop] = each * step;
  plan.levels.insert(plan.levels.begin() + level, {loop, plan.block[loop]});
  ++plan.grid_levels;
}

TilePlan planCopy(const Nest& nest, const Chip& chip, int loop, int64_t panel) {
  TilePlan plan;
  plan.tile.assign(nest.loops(), 1);
  plan.block.assign(nest.loops(), 0);
  plan.lanes = lanesOf(nest, chip);
  plan.vector_loop = loop;
  plan.tile[loop] = panel;
  plan.vectors = static_cast<int>(ceilDiv(panel, plan.lanes));
  plan.order = byOutputStride(nest);
  // Panels outside, what is within a panel by descending stride.
  sortBy(plan.order, [&](int other) {
    const Access& to = nest.statements[0].outputs[0].access;
    return other == loop ? -to.between(loop) * panel : -to.strides[other];
  });
  plan.transposed = nest.statements[0].inputs[0].access.strides[loop] == 1 ? -1 : turnedLoop(nest, plan);
  if (plan.transposed >= 0) {
    plan.tile[plan.transposed] = std::min<int64_t>(nest.extents[plan.transposed], plan.lanes);
    plan.rows = static_cast<int>(plan.tile[plan.transposed]);
  } else if (const int last = plan.order.back(); last != loop) {
    // A few rows of the source from end to end, a kilobyte of each panel at a time: both sides are streams.
    const int64_t row = panel * widestBits(nest) / 8;
    plan.tile[last] = std::min<int64_t>({nest.extents[last], 16, ceilDiv(1024, row)});
    plan.rows = static_cast<int>(plan.tile[last]);
    plan.order.erase(llvm::find(plan.order, loop));
    plan.order.push_back(loop);
  }
  plan.points = plan.order;
  plan.orderLevels(0);
  chooseGrid(nest, chip, plan);
  plan.strategy = "pack";
  return plan;
}

int64_t gridOf(const Nest& nest, const TilePlan& plan) {
  int64_t grid = 1;
  for (int level = 0; level < plan.grid_levels; ++level) grid *= plan.count(nest, level);
  return grid;
}

}  // namespace tessera::compiler::codegen
