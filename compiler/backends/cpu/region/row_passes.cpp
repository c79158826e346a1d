#include "compiler/backends/cpu/region/row_passes.h"

#include <numeric>

#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

/// Accesses of one step to one buffer.
struct Use {
  const Access* access;
  bool write;
};

llvm::SmallVector<Use> usesOf(const Nest& nest) {
  llvm::SmallVector<Use> uses;
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      if (accessesInputMemory(input)) uses.push_back({&input.access, false});
    for (auto [o, output] : llvm::enumerate(statement.outputs))
      if (accessesOutputMemory(statement, o)) uses.push_back({&output.access, true});
  }
  return uses;
}

}  // namespace

int rowLoop(const RegionNestRun& step) {
  const TilePlan& plan = step.plan;
  if (step.shared) return -1;  // trees do not describe its loops
  if (plan.levels.empty() || plan.transposed >= 0 || isContraction(step.nest) ||
      plan.kernel->traits().tile == KernelTraits::Tile::kWholeBlock)
    return -1;
  const auto [loop, step_size] = plan.levels[0];
  if (step.nest.reduction[loop] || plan.block[loop] > 0 || step_size != plan.tile[loop]) return -1;
  if (llvm::any_of(step.nest.statements, [](const Statement& statement) {  // a body that loads from memory
        bool loads = false;
        statement.op->walk([&](mlir::memref::LoadOp) { loads = true; });
        return loads;
      }))
    return -1;
  return loop;
}

namespace {

/// First and last element of row 0, relative to the slice's origin.
std::pair<int64_t, int64_t> firstRow(const Nest& nest, const Access& access, int rows) {
  int64_t lo = access.offset, hi = access.offset;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (loop == rows) continue;
    const int64_t span = access.strides[loop] * (nest.extents[loop] - 1);
    (span < 0 ? lo : hi) += span;
  }
  return {lo, hi};
}

}  // namespace

bool sameRows(const RegionNestRun& earlier, const RegionNestRun& later) {
  const int a = rowLoop(earlier), b = rowLoop(later);
  for (const Use& mine : usesOf(earlier.nest))
    for (const Use& theirs : usesOf(later.nest)) {
      if (mine.access->root != theirs.access->root || (!mine.write && !theirs.write)) continue;
      const int64_t row = mine.access->strides[a];
      if (row <= 0 || theirs.access->strides[b] != row || mine.access->slice != theirs.access->slice ||
          !mine.access->panel.empty() || !theirs.access->panel.empty())
        return false;
      const auto [lo1, hi1] = firstRow(earlier.nest, *mine.access, a);
      const auto [lo2, hi2] = firstRow(later.nest, *theirs.access, b);
      // Both touch less than one row stride for row 0, so the elements of row r of one step never meet another row of
      // the other step.
      if (std::max(hi1, hi2) - std::min(lo1, lo2) >= row) return false;
    }
  return true;
}

int64_t rowBytes(llvm::ArrayRef<RegionNestRun> steps) {
  llvm::SmallVector<mlir::Value> seen;
  int64_t bytes = 0;
  for (const RegionNestRun& step : steps)
    for (const Use& use : usesOf(step.nest)) {
      if (llvm::is_contained(seen, use.access->root)) continue;
      seen.push_back(use.access->root);
      const auto [lo, hi] = firstRow(step.nest, *use.access, rowLoop(step));
      bytes += (hi - lo + 1) * (elementBits(use.access->element) / 8);
    }
  return bytes;
}

int64_t rowUnit(llvm::ArrayRef<RegionNestRun> steps) {
  int64_t unit = 1;
  for (const RegionNestRun& step : steps) unit = std::lcm(unit, step.plan.tile[rowLoop(step)]);
  return unit;
}

}  // namespace tessera::compiler::codegen
