#include "compiler/codegen/region/prefetch_next_slice.h"

#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/micro_kernel.h"

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

namespace {

/// Long runs are left to the hardware prefetcher, few runs are not worth it, and too many would not stay in L2.
bool worthFetching(const PrefetchedRuns& runs, const Chip& chip) {
  const v1::CostParameters::Prefetching& parameters = chip.costParameters().prefetching();
  return runs.lines <= parameters.long_run_lines() && runs.count() >= parameters.always_followed_runs() &&
         runs.count() * runs.lines * chip.near().line_bytes <= chip.residentOperandBytes(chip.second());
}

void fetchNext(const Region& region, RegionVariant& variant, int innermost, const Chip& chip) {
  // The product with the most steps has the most room for prefetches between its steps.
  RegionNestRun* largest = nullptr;
  for (RegionNestRun& step : variant.steps)
    if (step.plan.kernel->traits().streams && step.depth == innermost + 1 && !step.last &&
        (!largest || step.nest.iterations() > largest->nest.iterations()))
      largest = &step;
  if (!largest) return;
  for (auto [n, step] : llvm::enumerate(variant.steps))
    for (auto [s, statement] : llvm::enumerate(step.nest.statements))
      for (auto [i, input] : llvm::enumerate(statement.inputs)) {
        if (!movesWithSlices(region, input)) continue;
        auto runs = runsOf(input.access, step.nest, chip.near().line_bytes);
        if (llvm::any_of(largest->plan.next_slice, [&, n = n](const PrefetchedRuns& known) {
              return known.source.step == static_cast<int>(n) && known.access == input.access;
            }))
          continue;  // the same elements as an earlier operand
        if (!runs || !worthFetching(*runs, chip)) continue;
        runs->source = {static_cast<int>(n), static_cast<int>(s), false, static_cast<int>(i)};
        largest->plan.next_slice.push_back(std::move(*runs));
      }
}

}  // namespace

void prefetchNextSlice(Region& region, const Chip& chip) {
  const int innermost = static_cast<int>(region.counts.size()) - 1;
  if (innermost < 0 || region.counts[innermost] < 2 || region.blocks > 1) return;
  for (RegionVariant& variant : region.variants) fetchNext(region, variant, innermost, chip);
}

}  // namespace tessera::compiler::codegen
