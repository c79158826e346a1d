#include "compiler/backends/cpu/tiling/dot_plan.h"

#include <limits>

#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"

namespace tessera::compiler::codegen {

bool multipliesAlongVectors(const Nest& nest, const TilePlan& plan) {
  return isContraction(nest) && llvm::all_of(nest.statements[0].inputs, [&](const Operand& input) {
           return !input.from && varies(input, plan.vector_loop);
         });
}

std::pair<int, int> dotLoops(const Nest& nest) {
  const Statement& main = nest.statements[0];
  std::pair<int, int> loops{-1, -1};
  // byOutputStride lists the innermost loop last, so the last match is the innermost one.
  for (int loop : byOutputStride(nest)) {
    const bool in_first = varies(main.inputs[0], loop), in_second = varies(main.inputs[1], loop);
    if (in_first && !in_second) loops.first = loop;
    if (in_second && !in_first) loops.second = loop;
  }
  return loops;
}

DotCosts::DotCosts(const Nest& nest, const Chip& chip, const TilePlan& plan) : chip_(chip) {
  const int column = dotLoops(nest).second;
  columns_ = column < 0 ? 1 : nest.extents[column];
  vector_bytes_ = plan.lanes * elementBits(nest.statements[0].inputs[0].access.element) / 8;
  const int64_t steps = nest.extents[plan.vector_loop];
  stay_ = columns_ * steps * vector_bytes_ / plan.lanes <= chip.residentOperandBytes(chip.near());
}

double DotCosts::step(int64_t rows, int64_t columns, int64_t whole) const {
  // All columns run past a tile of rows, which stays in L1 meanwhile; the columns stay as well if all of them fit.
  const double from_l2 =
      (stay_ ? 0.0 : static_cast<double>(columns)) + static_cast<double>(rows * whole) / static_cast<double>(columns_);
  return stepCycles(chip_, rows, columns,
                    from_l2 * static_cast<double>(vector_bytes_) / chip_.beyondNear().sustained_per_cycle);
}

void planDots(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const int64_t streams = chip.costParameters().prefetching().always_followed_runs();
  const auto [row, column] = dotLoops(nest);
  const int64_t rows = row < 0 ? 1 : nest.extents[row], columns = column < 0 ? 1 : nest.extents[column];
  const DotCosts costs(nest, chip, plan);
  double best = std::numeric_limits<double>::infinity();
  auto consider = [&](int64_t r, int64_t c) {
    if (DotCosts::registers(r, c) > chip.vectorRegisters()) return;
    // Tiles at the edges are smaller, and cost fewer cycles than full ones.
    double cycles = 0;
    forTiles(rows, r, [&](int64_t sr, int64_t n1) {
      forTiles(columns, c,
               [&](int64_t sc, int64_t n2) { cycles += static_cast<double>(n1 * n2) * costs.step(sr, sc, c); });
    });
    // Larger tiles are tried first and stay where costs are equal; the margin absorbs rounding of the sums.
    if (cycles >= best * (1 - 1e-9)) return;
    best = cycles;
    plan.rows = static_cast<int>(r);
    plan.vectors = static_cast<int>(c);
  };
  for (int64_t r = std::min(rows, streams); r >= 1; --r)
    for (int64_t c = std::min(columns, streams); c >= 1; --c) consider(r, c);
  if (row >= 0) plan.tile[row] = plan.rows;
  if (column >= 0) plan.tile[column] = plan.vectors;
  // Small tiles unroll two steps, so that enough multiply-adds are in flight to hide their latency.
  const int64_t steps = plan.rows * plan.vectors >= chip.costParameters().tiles().dots_in_flight() ? 1 : 2;
  plan.tile[plan.vector_loop] = std::min(nest.extents[plan.vector_loop], plan.lanes * steps);
  // The shorter side is held in registers while the longer one is streamed.
  plan.order = byOutputStride(nest);
  plan.points = plan.order;
  const int held = plan.rows <= plan.vectors ? row : column;
  sortBy(plan.points, [held = held](int loop) { return loop == held ? 1 : 0; });
}

void planDotMemory(const Nest& nest, const PlanConstraints& wanted, TilePlan& plan) {
  for (int input : {0, 1}) {
    // Vectors along the reduction need contiguous elements; a panel makes them so.
    const bool strided = nest.statements[0].inputs[input].access.strides[plan.vector_loop] != 1;
    const bool asked = !wanted.packed || llvm::is_contained(*wanted.packed, input);
    if (strided && asked && canPack(nest, input)) plan.packed.push_back({input, plan.vector_loop});
  }
  plan.orderLevels(0);
}

}  // namespace tessera::compiler::codegen
