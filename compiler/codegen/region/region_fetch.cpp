#include "compiler/codegen/region/region_fetch.h"

#include "compiler/codegen/tiling/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

constexpr int64_t kLine = 64;
/// Runs of so many lines are streams that the hardware follows by itself.
constexpr int64_t kLongRun = 512;
/// Fewer runs are followed as well.
constexpr int64_t kFewRuns = 8;

/// The runs that `access` touches within a nest of these extents; nothing when they are long, few or too many.
std::optional<FetchedRuns> runsOf(const Access& access, const Nest& nest, const Machine& machine) {
  const int64_t bytes = elementBits(access.element) / 8;
  llvm::SmallVector<std::pair<int64_t, int64_t>> loops;  // stride, extent
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (access.strides[loop] < 0) return std::nullopt;
    if (access.strides[loop] > 0 && nest.extents[loop] > 1)
      loops.emplace_back(access.strides[loop], nest.extents[loop]);
  }
  llvm::sort(loops);
  FetchedRuns runs{access, {}, 1};
  int64_t length = 1;  // elements of a run
  for (auto [stride, extent] : loops) {
    if (runs.apart.empty() && (stride <= length || stride * bytes < kLine)) {
      length += stride * (extent - 1);
      continue;
    }
    // A window over rows that another loop steps through: together they are more rows.
    if (!runs.apart.empty()) {
      auto& [step, count] = runs.apart.back();
      if (stride % step == 0 && stride / step <= count) {
        count += stride / step * (extent - 1);
        continue;
      }
    }
    runs.apart.emplace_back(stride, extent);
  }
  runs.lines = ceilDiv(length * bytes, kLine) + (length * bytes % kLine > 0 ? 1 : 0);  // may begin within a line
  if (runs.lines > kLongRun || runs.count() < kFewRuns || runs.count() * runs.lines * kLine > machine.l2_bytes / 2)
    return std::nullopt;
  return runs;
}

void fetchNext(RegionVariant& variant, int innermost, const Machine& machine) {
  RegionStep* largest = nullptr;
  for (RegionStep& step : variant.steps)
    if (isContraction(step.nest) && step.plan.lanes > 1 && !step.plan.horizontal && step.depth == innermost + 1 &&
        !step.last && (!largest || step.nest.iterations() > largest->nest.iterations()))
      largest = &step;
  if (!largest) return;
  for (const RegionStep& step : variant.steps)
    for (const Statement& statement : step.nest.statements)
      for (const Operand& input : statement.inputs) {
        const Access& access = input.access;
        if (input.from || !llvm::isa_and_nonnull<mlir::BlockArgument>(access.root) || !access.panel.empty() ||
            static_cast<int>(access.slice.size()) <= innermost || access.slice[innermost] == 0)
          continue;
        if (auto runs = runsOf(access, step.nest, machine)) largest->plan.next_slice.push_back(std::move(*runs));
      }
}

}  // namespace

void fetchNextSlices(Region& region, const Machine& machine) {
  const int innermost = static_cast<int>(region.counts.size()) - 1;
  if (innermost < 0 || region.counts[innermost] < 2 || region.blocks > 1) return;
  for (RegionVariant& variant : region.variants) fetchNext(variant, innermost, machine);
}

}  // namespace tessera::compiler::codegen
