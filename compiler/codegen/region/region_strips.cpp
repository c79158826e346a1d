#include "compiler/codegen/region/region_strips.h"

#include <numeric>

#include "compiler/codegen/operand_accesses.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/micro_kernel.h"
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

namespace {

/// Bytes that one row of these steps touches.
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

}  // namespace

int64_t rowUnit(llvm::ArrayRef<RegionNestRun> steps) {
  int64_t unit = 1;
  for (const RegionNestRun& step : steps) unit = std::lcm(unit, step.plan.tile[rowLoop(step)]);
  return unit;
}

namespace {

void formStrips(RegionVariant& variant, const Chip& chip) {
  std::vector<RegionNestRun>& steps = variant.steps;
  const int64_t room = chip.residentOperandBytes(chip.near());
  for (size_t first = 0, end = 1; first < steps.size(); first = end++) {
    if (rowLoop(steps[first]) < 0) continue;
    const int64_t rows = steps[first].nest.extents[rowLoop(steps[first])];
    auto joins = [&](const RegionNestRun& step) {
      const int mine = rowLoop(step);
      if (mine < 0 || step.depth != steps[first].depth || step.last != steps[first].last ||
          step.nest.extents[mine] != rows)
        return false;
      for (size_t s = first; s < end; ++s)
        if (!sameRows(steps[s], step)) return false;
      // Vectors along the row loop (as in a scaled sum) make the unit many rows, which may be too large for L1.
      const llvm::ArrayRef<RegionNestRun> longer(&steps[first], end + 1 - first);
      return rowUnit(longer) * rowBytes(longer) <= chip.near().capacity_bytes;
    };
    while (end < steps.size() && joins(steps[end])) ++end;
    if (end - first < 2) continue;
    const llvm::MutableArrayRef<RegionNestRun> run(&steps[first], end - first);
    const int64_t unit = rowUnit(run), strip = std::max<int64_t>(1, room / rowBytes(run) / unit) * unit;
    if (strip >= rows) continue;  // all rows stay in L1 as they are
    // The row loop is the first level: as the only grid level, it makes a range of grid points a range of rows.
    for (RegionNestRun& step : run) step.plan.grid_levels = 1;
    variant.strips.push_back({first, end, strip, ceilDiv(rows, strip)});
  }
}

}  // namespace

void formStrips(Region& region, const Chip& chip) {
  for (RegionVariant& variant : region.variants) formStrips(variant, chip);
}

}  // namespace tessera::compiler::codegen
