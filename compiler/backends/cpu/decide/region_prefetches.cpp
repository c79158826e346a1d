#include "compiler/backends/cpu/decide/region_prefetches.h"

#include "compiler/backends/cpu/region/slice_prefetch.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"

namespace tessera::compiler::codegen {
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

int64_t bytesOf(const NextBlock& next) { return next.elements * (elementBits(next.block.element) / 8); }

/// Cache lines that each slice prefetches.
double linesOf(const NextBlock& next, int64_t line) {
  double lines = static_cast<double>(bytesOf(next)) / static_cast<double>(line);
  for (int64_t count : llvm::ArrayRef<int64_t>(next.counts).drop_front(next.loop + 1))
    // Slices of inner loops share the block, so its lines are spread over them.
    lines /= static_cast<double>(count);
  return lines;
}

/// Bodies of unrolled steps of a product in each slice.
double bodiesOf(const RegionNestRun& step) {
  double bodies = 1;
  for (int loop = 0; loop < step.nest.loops(); ++loop)
    bodies *= static_cast<double>(ceilDiv(step.nest.extents[loop], step.plan.tile[loop]));
  return bodies;
}

void prefetchBlocks(const Region& region, RegionVariant& variant, const Chip& chip) {
  auto inScratch = [&](mlir::Value root) {
    return llvm::any_of(region.scratch, [&](const auto& placed) { return placed.first == root; });
  };
  std::vector<NextBlock> blocks;
  auto consider = [&](const Nest& nest, const Access& access, const BufferReference& source) {
    if (!access.root || inScratch(access.root)) return;
    if (llvm::any_of(blocks, [&](const NextBlock& known) { return known.block.root == access.root; })) return;
    auto block = blockOf(region, nest, access);
    if (!block) return;
    block->source = source;
    blocks.push_back(std::move(*block));
  };
  for (auto [n, step] : llvm::enumerate(variant.steps))
    for (auto [s, statement] : llvm::enumerate(step.nest.statements)) {
      const BufferReference place{static_cast<int>(n), static_cast<int>(s), false, 0};
      for (auto [i, input] : llvm::enumerate(statement.inputs))
        if (!input.from) consider(step.nest, input.access, {place.step, place.statement, false, static_cast<int>(i)});
      for (auto [o, output] : llvm::enumerate(statement.outputs))
        if (statement.stored[o])
          consider(step.nest, output.access, {place.step, place.statement, true, static_cast<int>(o)});
    }
  int64_t bytes = region.scratch_bytes;
  // Two slices of each block must fit in L2 together with the scratch.
  for (const NextBlock& block : blocks) bytes += 2 * bytesOf(block);
  if (bytes > chip.second().capacity_bytes) return;

  struct Product {
    TilePlan* plan;
    double bodies, lines = 0;
  };
  llvm::SmallVector<Product> products;
  for (RegionNestRun& step : variant.steps)
    if (canPrefetchBlocks(region, step)) products.push_back({&step.plan, bodiesOf(step)});
  for (const NextBlock& block : blocks) {
    // Balances the prefetches over the products of a slice.
    Product* idlest = nullptr;
    for (Product& product : products)
      if (!idlest || product.lines / product.bodies < idlest->lines / idlest->bodies) idlest = &product;
    const double lines = linesOf(block, chip.near().line_bytes);
    // More prefetches in one body would stall on each other.
    if (!idlest || idlest->lines + lines > chip.costParameters().prefetching().lines_per_body() * idlest->bodies)
      continue;
    idlest->lines += lines;
    idlest->plan->next_blocks.push_back(block);
  }
}

}  // namespace

void prefetchNextSlice(Region& region, const Chip& chip) {
  const int innermost = static_cast<int>(region.counts.size()) - 1;
  if (innermost < 0 || region.counts[innermost] < 2 || region.blocks > 1) return;
  for (RegionVariant& variant : region.variants) fetchNext(region, variant, innermost, chip);
}

void prefetchBlocks(Region& region, const Chip& chip) {
  for (RegionVariant& variant : region.variants) prefetchBlocks(region, variant, chip);
}

}  // namespace tessera::compiler::codegen
