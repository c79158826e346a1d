#include "compiler/backends/cpu/decide/region_strips.h"

#include <algorithm>

#include "compiler/backends/cpu/region/row_passes.h"
#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {
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
