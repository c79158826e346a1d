#include "compiler/codegen/tiling/dot_plan.h"

#include <limits>

#include "compiler/codegen/tiling/contraction_plan.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/tile_cost.h"

namespace tessera::compiler::codegen {

void planDots(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const int64_t streams = chip.prices().fetches().few_runs();
  const Statement& main = nest.statements[0];
  int row = -1, column = -1;
  plan.order = byOutputStride(nest);
  for (int loop : plan.order) {
    const bool in_first = varies(main.inputs[0], loop), in_second = varies(main.inputs[1], loop);
    if (in_first && !in_second) row = loop;
    if (in_second && !in_first) column = loop;
  }
  const int64_t rows = row < 0 ? 1 : nest.extents[row], columns = column < 0 ? 1 : nest.extents[column];
  const int64_t steps = nest.extents[plan.vector_loop];
  const int64_t vector_bytes = plan.lanes * elementBits(main.inputs[0].access.element) / 8;
  double best = std::numeric_limits<double>::infinity();
  auto consider = [&](int64_t r, int64_t c) {
    if (r * c + std::min(r, c) + 1 > chip.vectorRegisters()) return;
    double cycles = 0;
    forTiles(rows, r, [&](int64_t sr, int64_t n1) {
      forTiles(columns, c, [&](int64_t sc, int64_t n2) {
        // All columns pass a tile of rows, which stays in L1 meanwhile; the columns do when all of them fit.
        const bool stay = columns * steps * vector_bytes / plan.lanes <= chip.near().capacity_bytes / 2;
        const double from_l2 =
            (stay ? 0.0 : static_cast<double>(sc)) + static_cast<double>(sr * c) / static_cast<double>(columns);
        cycles += static_cast<double>(n1 * n2) * stepCycles(chip, sr, sc, from_l2 * static_cast<double>(vector_bytes));
      });
    });
    if (cycles >= best * (1 - 1e-9)) return;
    best = cycles;
    plan.rows = static_cast<int>(r);
    plan.vectors = static_cast<int>(c);
  };
  for (int64_t r = std::min(rows, streams); r >= 1; --r)
    for (int64_t c = std::min(columns, streams); c >= 1; --c) consider(r, c);
  if (row >= 0) plan.tile[row] = plan.rows;
  if (column >= 0) plan.tile[column] = plan.vectors;
  plan.tile[plan.vector_loop] = std::min<int64_t>(steps, plan.lanes * (plan.rows * plan.vectors >= 16 ? 1 : 2));
  // The shorter side is held in registers while the longer one passes.
  plan.points = plan.order;
  const int held = plan.rows <= plan.vectors ? row : column;
  sortBy(plan.points, [&](int loop) { return loop == held ? 1 : 0; });
}

void planDotMemory(const Nest& nest, const Wanted& wanted, TilePlan& plan) {
  for (int input : {0, 1}) {
    const bool strided = nest.statements[0].inputs[input].access.strides[plan.vector_loop] != 1;
    const bool asked = !wanted.packed || llvm::is_contained(*wanted.packed, input);
    if (strided && asked && canPack(nest, input)) plan.packed.push_back({input, plan.vector_loop});
  }
  plan.orderLevels(0);
}

}  // namespace tessera::compiler::codegen
