#include "compiler/codegen/tile_plan.h"

#include <algorithm>
#include <limits>

#include "compiler/codegen/body.h"
#include "compiler/codegen/reduction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int elementBits(mlir::Type type) { return type.isIndex() ? 64 : std::max<int>(8, type.getIntOrFloatBitWidth()); }

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

bool varies(const Operand& operand, int loop) { return operand.access.root && operand.access.strides[loop] != 0; }

/// Cost in vector instructions per element of making `loop` the vector loop; strided operands are taken
/// apart lane by lane.
double vectorLoopCost(const Nest& nest, int loop, int lanes) {
  double cost = 0;
  auto charge = [&](const Operand& operand, bool parallel_only) {
    if (!operand.access.root || operand.from || (parallel_only && nest.reduction[loop])) return;
    const int64_t stride = operand.access.strides[loop];
    cost += stride == 0 || stride == 1 ? 1 : 1.2 * lanes;
  };
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs) charge(input, &statement != &nest.statements[0]);
    for (const Operand& output : statement.outputs) charge(output, true);
  }
  if (nest.reduction[loop]) cost += 6.0 * lanes / static_cast<double>(nest.extents[loop]) + 0.5;
  const double used = static_cast<double>(nest.extents[loop]) / (ceilDiv(nest.extents[loop], lanes) * lanes);
  return cost / (lanes * used);
}

void chooseVectorLoop(const Nest& nest, const Machine& machine, TilePlan& plan) {
  const int lanes = machine.vector_bits / widestBits(nest);
  if (lanes < 2 || !llvm::all_of(nest.statements, [](const Statement& s) { return isVectorizableBody(*s.body()); }))
    return;
  const bool can_combine = canCombineLanes(nest.statements[0]);
  double best = std::numeric_limits<double>::infinity();
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.extents[loop] == 1 || (nest.reduction[loop] && !can_combine)) continue;
    const double cost = vectorLoopCost(nest, loop, lanes);
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

/// Sorts loops by ascending key; equal keys keep their order.
template <typename Key>
void sortBy(llvm::SmallVector<int>& loops, Key key) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t i = 0; i < loops.size(); ++i) order.emplace_back(key(loops[i]), i);
  std::sort(order.begin(), order.end());
  const llvm::SmallVector<int> before = loops;
  for (size_t i = 0; i < loops.size(); ++i) loops[i] = before[order[i].second];
}

int64_t outputStride(const Nest& nest, int loop) { return nest.statements[0].outputs[0].access.strides[loop]; }

/// Parallel loops by descending stride of the first output: the order in which memory is walked.
llvm::SmallVector<int> byOutputStride(const Nest& nest) {
  llvm::SmallVector<int> loops;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) loops.push_back(loop);
  sortBy(loops, [&](int loop) { return -outputStride(nest, loop); });
  return loops;
}

/// Splits `extent` into full tiles and a rest: calls fn(size, count).
template <typename Fn>
void forTiles(int64_t extent, int64_t tile, Fn fn) {
  if (extent / tile > 0) fn(tile, extent / tile);
  if (extent % tile > 0) fn(extent % tile, 1);
}

/// Cycles of one reduction step of a rows x vectors tile: two fused multiply-adds and two loads a cycle, one
/// cache line of the vector operand in two cycles from L2, and a latency of four between dependent ones.
double stepCycles(int64_t rows, int64_t vectors) {
  return std::max({rows * vectors / 2.0, (rows + vectors) / 2.0, 2.0 * vectors, 4.0});
}

/// Register tile of a contraction: of all tiles that fit the register file (accumulators, one vector operand
/// row, one broadcast; thesis eq. 3.4) the one with the lowest predicted cycles over main and rest tiles.
void chooseContractionTile(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, TilePlan& plan) {
  const Statement& main = nest.statements[0];
  const int v = plan.vector_loop;
  int a = -1, b = -1;  // a: broadcast along the vector; b: loaded as vectors
  for (int i = 0; i < static_cast<int>(main.inputs.size()); ++i) (varies(main.inputs[i], v) ? b : a) = i;
  llvm::SmallVector<int> rows, columns;
  const llvm::SmallVector<int> parallel = byOutputStride(nest);
  for (int loop : llvm::reverse(parallel)) {
    if (loop == v) continue;
    const bool in_a = a >= 0 && varies(main.inputs[a], loop), in_b = b >= 0 && varies(main.inputs[b], loop);
    if (in_a && !in_b) rows.push_back(loop);
    if (in_b && !in_a && a >= 0) columns.push_back(loop);
    if (a < 0 && !llvm::all_of(main.inputs, [&](const Operand& input) { return varies(input, loop); }))
      rows.push_back(loop);  // depthwise: one operand is shared by neighbours
  }
  const int64_t vectors_all = ceilDiv(nest.extents[v], plan.lanes);
  const int64_t row1 = rows.empty() ? 1 : nest.extents[rows[0]];
  const int64_t row2 = rows.size() < 2 ? 1 : nest.extents[rows[1]];
  const int64_t column2 = columns.empty() ? 1 : nest.extents[columns[0]];
  int64_t wanted_rows = 0, wanted_vectors = 0;
  if (wanted.register_tile_size() == 2) {
    wanted_rows = wanted.register_tile(0);
    wanted_vectors = wanted.register_tile(1);
  }
  double best = std::numeric_limits<double>::infinity();
  int64_t t1 = 1, t2 = 1, tv = 1, tc = 1;
  auto consider = [&](int64_t r1, int64_t r2, int64_t nv, int64_t c2) {
    const int64_t mr = r1 * r2, nr = nv * c2;
    if (mr * nr + nr + 1 > machine.vector_registers) return;
    if (wanted_rows > 0 && (mr != wanted_rows || nr != wanted_vectors)) return;
    double cycles = 0;
    forTiles(row1, r1, [&](int64_t s1, int64_t n1) {
      forTiles(row2, r2, [&](int64_t s2, int64_t n2) {
        forTiles(vectors_all, nv, [&](int64_t sv, int64_t n3) {
          forTiles(column2, c2, [&](int64_t sc, int64_t n4) {
            cycles += static_cast<double>(n1 * n2 * n3 * n4) * (stepCycles(s1 * s2, sv * sc) + 0.02 * sv * sc);
          });
        });
      });
    });
    if (cycles < best * (1 - 1e-9)) {
      best = cycles;
      t1 = r1, t2 = r2, tv = nv, tc = c2;
    }
  };
  const int64_t most = machine.vector_registers;
  auto search = [&] {
    for (int64_t nv = 1; nv <= std::min<int64_t>(vectors_all, 6); ++nv)
      for (int64_t c2 = 1; c2 <= (nv == vectors_all ? std::min<int64_t>(column2, 4) : 1); ++c2)
        for (int64_t r1 = std::min(row1, most); r1 >= 1; --r1)
          for (int64_t r2 = 1; r2 <= (r1 == row1 ? std::min(row2, most) : 1); ++r2) consider(r1, r2, nv, c2);
  };
  search();
  if (best == std::numeric_limits<double>::infinity()) {  // the wanted tile does not exist here
    wanted_rows = 0;
    search();
  }
  if (!rows.empty()) plan.tile[rows[0]] = t1;
  if (rows.size() > 1) plan.tile[rows[1]] = t2;
  if (!columns.empty()) plan.tile[columns[0]] = tc;
  plan.tile[v] = std::min(nest.extents[v], tv * plan.lanes);
  plan.rows = static_cast<int>(t1 * t2);
  plan.vectors = static_cast<int>(tv * tc);

  // Outermost first: loops all operands walk; far rows; columns; near rows. The tile of the vector operand
  // stays in cache while the two innermost row loops run.
  auto rank = [&](int loop) {
    if (loop == v || llvm::is_contained(columns, loop)) return 2;
    auto* found = llvm::find(rows, loop);
    if (found == rows.end()) return 0;
    return found - rows.begin() < 2 ? 3 : 1;
  };
  plan.order = parallel;
  sortBy(plan.order, rank);

  // Within the tile the shorter side is held in registers while the longer one passes: all columns of a row
  // before the next row, when there are fewer columns than rows.
  plan.points = plan.order;
  const bool hold_columns = plan.vectors <= plan.rows;
  sortBy(plan.points, [&](int loop) {
    const bool column = loop == v || llvm::is_contained(columns, loop);
    return column == hold_columns ? 1 : 0;
  });
}

/// Everything else: a few independent vectors at a time hide latency; more of them when a body is cheap.
void chooseSimpleTile(const Nest& nest, TilePlan& plan) {
  plan.order = byOutputStride(nest);
  if (plan.lanes == 1) return;
  int cost = 0;
  for (const Statement& statement : nest.statements) cost += bodyCost(*statement.body());
  int64_t points = nest.hasReduction() ? 8 : cost > 24 ? 1 : 4;
  const int v = plan.vector_loop;
  const int64_t vectors = std::min(ceilDiv(nest.extents[v], plan.lanes), plan.horizontal ? points / 2 : points);
  plan.tile[v] = std::min(nest.extents[v], vectors * plan.lanes);
  plan.vectors = static_cast<int>(vectors);
  points /= vectors;
  for (int loop : llvm::reverse(plan.order)) {
    if (loop == v || points < 2) continue;
    plan.tile[loop] = std::min(nest.extents[loop], points);
    plan.rows = static_cast<int>(plan.tile[loop]);
    break;
  }
}

/// Reduction loops, the one with the largest steps outermost, and how far each is unrolled: short inner ones
/// entirely, a long innermost one by four, within a bound on the code's size.
void chooseReductions(const Nest& nest, const v1::Schedule& wanted, TilePlan& plan) {
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
  const int64_t limit = wanted.unroll_reduction() > 0 ? wanted.unroll_reduction() : 4;
  for (int loop : llvm::reverse(plan.reductions)) {
    if (loop == plan.vector_loop) break;
    const int64_t extent = nest.extents[loop];
    if (extent <= budget && extent <= std::max<int64_t>(limit, 7)) {
      plan.tile[loop] = extent;
      budget /= extent;
      continue;
    }
    int64_t unroll = std::min({limit, budget, extent});
    for (int64_t divisor = unroll; divisor >= 2; --divisor)
      if (extent % divisor == 0 && divisor * 2 >= unroll) {
        unroll = divisor;
        break;
      }
    plan.tile[loop] = std::max<int64_t>(1, unroll);
    break;
  }
}

/// As many outer loops as leave a few thousand instructions for one grid point.
void chooseGrid(const Nest& nest, const v1::Schedule& wanted, TilePlan& plan) {
  constexpr double kSmallestPoint = 2000;
  double inside = 1;
  for (const Statement& statement : nest.statements) inside += bodyCost(*statement.body());
  inside *= static_cast<double>(plan.rows) * plan.vectors;
  for (int loop : plan.reductions)
    inside *=
        static_cast<double>(loop == plan.vector_loop ? ceilDiv(nest.extents[loop], plan.lanes) : nest.extents[loop]);
  plan.grid_loops = static_cast<int>(plan.order.size());
  while (plan.grid_loops > 1 && inside < kSmallestPoint) {
    const int loop = plan.order[plan.grid_loops - 1];
    inside *= static_cast<double>(ceilDiv(nest.extents[loop], plan.tile[loop]));
    --plan.grid_loops;
  }
  if (wanted.parallel_loops() > 0)
    plan.grid_loops = std::min<int>(wanted.parallel_loops(), static_cast<int>(plan.order.size()));
}

}  // namespace

bool isContraction(const Nest& nest) {
  const Statement& main = nest.statements[0];
  if (!nest.hasReduction() || main.outputs.size() != 1 || main.inputs.size() != 2) return false;
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

TilePlan planTile(const Nest& nest, const Machine& machine, const v1::Schedule& wanted) {
  TilePlan plan;
  plan.tile.assign(nest.loops(), 1);
  chooseVectorLoop(nest, machine, plan);
  const bool contraction = isContraction(nest);
  if (contraction && plan.lanes > 1 && !plan.horizontal) {
    chooseContractionTile(nest, machine, wanted, plan);
  } else {
    chooseSimpleTile(nest, plan);
  }
  if (plan.points.empty()) plan.points = plan.order;
  chooseReductions(nest, wanted, plan);
  chooseGrid(nest, wanted, plan);
  plan.strategy = plan.lanes == 1       ? "scalar-loops"
                  : contraction         ? "contraction"
                  : nest.hasReduction() ? "reduction"
                                        : "elementwise";
  return plan;
}

int64_t gridOf(const Nest& nest, const TilePlan& plan) {
  int64_t grid = 1;
  for (int level = 0; level < plan.grid_loops; ++level) {
    const int loop = plan.order[level];
    grid *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  }
  return grid;
}

}  // namespace tessera::compiler::codegen
