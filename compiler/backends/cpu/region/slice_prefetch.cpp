#include "compiler/backends/cpu/region/slice_prefetch.h"

#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"

namespace tessera::compiler::codegen {

std::optional<PrefetchedRuns> runsOf(const Access& access, const Nest& nest, int64_t line) {
  const int64_t bytes = elementBits(access.element) / 8;
  llvm::SmallVector<std::pair<int64_t, int64_t>> loops;  // stride, extent
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (access.strides[loop] < 0) return std::nullopt;
    if (access.strides[loop] > 0 && nest.extents[loop] > 1)
      loops.emplace_back(access.strides[loop], nest.extents[loop]);
  }
  llvm::sort(loops);
  PrefetchedRuns runs{access, {}, 1, {}};
  int64_t length = 1;  // elements of a run
  for (auto [stride, extent] : loops) {
    if (runs.apart.empty() && (stride <= length || stride * bytes < line)) {
      length += stride * (extent - 1);
      continue;
    }
    // A window over rows that an outer loop steps through: together they cover more rows.
    if (!runs.apart.empty()) {
      auto& [step, count] = runs.apart.back();
      if (stride % step == 0 && stride / step <= count) {
        count += stride / step * (extent - 1);
        continue;
      }
    }
    runs.apart.emplace_back(stride, extent);
  }
  runs.lines = ceilDiv(length * bytes, line) + (length * bytes % line > 0 ? 1 : 0);  // it may begin within a line
  return runs;
}

bool movesWithSlices(const Region& region, const Operand& input) {
  const int innermost = static_cast<int>(region.counts.size()) - 1;
  const Access& access = input.access;
  return innermost >= 0 && region.counts[innermost] > 1 && region.blocks == 1 && !input.from &&
         llvm::isa_and_nonnull<mlir::BlockArgument>(access.root) && access.panel.empty() &&
         static_cast<int>(access.slice.size()) > innermost && access.slice[innermost] != 0;
}

std::optional<NextBlock> blockOf(const Region& region, const Nest& nest, const Access& access) {
  if (!access.panel.empty() || access.slice.size() != region.counts.size()) return std::nullopt;
  NextBlock next;
  next.block = access;
  int64_t points = 1, last = 0;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (access.strides[loop] == 0) continue;
    if (access.strides[loop] < 0) return std::nullopt;
    points *= nest.extents[loop];
    last += access.strides[loop] * (nest.extents[loop] - 1);
  }
  next.elements = last + 1;
  // Fewer points than elements: the block has gaps, and prefetching all of it would waste bandwidth.
  if (points < next.elements) return std::nullopt;
  int loop = -1;
  for (auto [v, stride] : llvm::enumerate(access.slice))
    // Keeps the innermost slice loop that moves the block: each of its steps needs a new block.
    if (stride != 0 && region.counts[v] > 1) loop = static_cast<int>(v);
  if (loop < 0) return std::nullopt;  // the same for all slices
  next.loop = loop;
  next.counts = region.counts;
  return next;
}

bool canPrefetchBlocks(const Region& region, const RegionNestRun& step) {
  return step.plan.kernel->traits().streams && step.depth == static_cast<int>(region.counts.size()) && !step.last &&
         !step.plan.reductions.empty() && llvm::all_of(step.plan.block, [](int64_t block) { return block == 0; });
}

}  // namespace tessera::compiler::codegen
