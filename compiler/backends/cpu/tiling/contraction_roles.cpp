#include "compiler/backends/cpu/tiling/contraction_roles.h"

#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {

Roles rolesOf(const Nest& nest, const TilePlan& plan) {
  const Statement& main = nest.statements[0];
  Roles roles;
  // If both operands walk the vector loop, `b` is the second one and `a` stays -1.
  for (int i = 0; i < static_cast<int>(main.inputs.size()); ++i)
    (varies(main.inputs[i], plan.vector_loop) ? roles.b : roles.a) = i;
  // Reversed below, so that rows and columns list the loop with the smallest output stride first.
  const llvm::SmallVector<int> parallel = byOutputStride(nest);
  for (int loop : llvm::reverse(parallel)) {
    if (loop == plan.vector_loop) continue;
    const bool in_a = roles.a >= 0 && varies(main.inputs[roles.a], loop),
               in_b = roles.b >= 0 && varies(main.inputs[roles.b], loop);
    if (in_a && !in_b) roles.rows.push_back(loop);
    if (in_b && !in_a && roles.a >= 0) roles.columns.push_back(loop);
    if (roles.a < 0 && !llvm::all_of(main.inputs, [&](const Operand& input) { return varies(input, loop); }))
      roles.rows.push_back(loop);  // depthwise: neighbouring rows share one operand
  }
  return roles;
}

int64_t strideBytes(const Nest& nest, int input, int loop) {
  const Access& access = nest.statements[0].inputs[input].access;
  return access.strides[loop] * (elementBits(access.element) / 8);
}

bool evictEachOther(const Chip& chip, int64_t lines, int64_t stride) {
  const Chip::Level& near = chip.near();
  const int64_t sets = near.sets();
  llvm::SmallVector<int64_t> used;
  // The number of distinct sets bounds how many of these lines the cache can hold at once.
  for (int64_t line = 0; line < lines; ++line)
    if (const int64_t set = line * stride / near.line_bytes % sets; !llvm::is_contained(used, set)) used.push_back(set);
  return lines > std::max(near.ways, chip.residentWays(near, static_cast<int64_t>(used.size())));
}

int64_t depthOf(const Nest& nest, const Operand& operand) {
  int64_t depth = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop] && varies(operand, loop)) depth *= nest.extents[loop];
  return depth;
}

int64_t blockDepthOf(const Nest& nest, const Chip& chip, const Operand& operand) {
  return std::min(depthOf(nest, operand), chip.costParameters().products().max_reduction_block());
}

int64_t bytesOf(const Nest& nest, const Operand& operand) {
  int64_t bytes = elementBits(operand.access.element) / 8;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (varies(operand, loop)) bytes *= nest.extents[loop];
  return bytes;
}

Runs touchedRuns(const Nest& nest, const Operand& operand, llvm::ArrayRef<LoopSteps> steps) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> walked;  // stride, extent
  const auto walk = [&](int loop, int64_t count) {
    if (varies(operand, loop)) walked.emplace_back(std::abs(operand.access.strides[loop]), count);
  };
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop]) walk(loop, nest.extents[loop]);
  for (const LoopSteps& each : steps) walk(each.loop, each.count);
  // Ascending strides: a stride within the run so far extends it, a multiple of the last distance extends that series
  // of runs, and any other one multiplies the runs.
  llvm::sort(walked);
  int64_t run = 1;
  llvm::SmallVector<std::pair<int64_t, int64_t>> apart;  // distances between runs
  for (auto [stride, extent] : walked) {
    if (stride <= run) {
      run += (extent - 1) * stride;
    } else if (!apart.empty() && stride % apart.back().first == 0 &&
               stride / apart.back().first <= apart.back().second) {
      apart.back().second += (extent - 1) * (stride / apart.back().first);
    } else {
      apart.emplace_back(stride, extent);
    }
  }
  int64_t runs = 1;
  for (auto [stride, extent] : apart) runs *= extent;
  return {runs, run * elementBits(operand.access.element) / 8};
}

bool needsBlockCopies(const Nest& nest, const Chip& chip, const Roles& roles) {
  constexpr int64_t kRows = 8;  // assumed rows of a register tile, which is not chosen yet
  if (roles.a < 0 || roles.rows.empty() || !canPack(nest, roles.a)) return false;
  const Operand& operand = nest.statements[0].inputs[roles.a];
  const int64_t bytes = blockDepthOf(nest, chip, operand) * (elementBits(operand.access.element) / 8);
  if (nest.extents[roles.rows[0]] * bytes <
      chip.costParameters().products().row_blocks() * chip.residentOperandBytes(chip.second()))
    return false;
  const Chip::Level& near = chip.near();
  const int64_t sets = near.sets(), stride = strideBytes(nest, roles.a, roles.rows[0]);
  // Ways that a tile of rows takes in each set, if its rows are a stride apart.
  llvm::SmallVector<int64_t> ways(sets, 0);
  for (int64_t row = 0; row < kRows; ++row) ++ways[row * stride / near.line_bytes % sets];
  return stride > 0 && *llvm::max_element(ways) > chip.residentWays(near);
}

int64_t passesOver(const Nest& nest, const TilePlan& plan, const Operand& operand) {
  int64_t passes = 1;
  for (int loop : plan.order)
    if (!varies(operand, loop)) passes *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  return passes;
}

int64_t rowsOf(const Nest& nest, const Roles& roles) {
  int64_t rows = 1;
  for (int loop : roles.rows) rows *= nest.extents[loop];
  return rows;
}

int rankOf(const Roles& roles, const TilePlan& plan, int loop, bool columns_inside) {
  if (loop == plan.vector_loop || llvm::is_contained(roles.columns, loop)) return columns_inside ? 4 : 2;
  const auto* found = llvm::find(roles.rows, loop);
  if (found == roles.rows.end()) return 0;
  return found - roles.rows.begin() < 2 ? 3 : 1;  // rows list the nearest loop first
}

}  // namespace tessera::compiler::codegen
