#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/backends/cpu/tree/leaf.h"

namespace tessera::compiler::codegen {
namespace {

/// Whether the reduction loop at `position`, which the tile covers entirely, could be exchanged with the next one, of
/// which the tile holds a single step, without a change of the code: no prefetch counts steps or depends on the
/// innermost reduction.
bool standsTooEarly(const Nest& nest, const TilePlan& plan, size_t position) {
  const int whole = plan.reductions[position], single = plan.reductions[position + 1];
  if (plan.tile[whole] != nest.extents[whole] || plan.tile[single] != 1) return false;
  if (plan.block[whole] > 0 || plan.block[single] > 0) return false;
  if (plan.prefetch_panel || plan.prefetch_results || !plan.next_slice.empty() || !plan.next_blocks.empty())
    return false;
  if (position + 2 < plan.reductions.size()) return true;
  const bool fetches_copies = llvm::any_of(plan.copies, [](const BlockCopy& copy) { return copy.ahead > 0; });
  return plan.ahead == 0 && !plan.prefetch_rows && !fetches_copies && plan.kernel->traits().least_steps == 1;
}

/// The position of the first such loop; the number of reductions if there is none.
size_t firstTooEarly(const Nest& nest, const TilePlan& plan) {
  size_t position = 0;
  while (position + 1 < plan.reductions.size() && !standsTooEarly(nest, plan, position)) ++position;
  return position + 1 < plan.reductions.size() ? position : plan.reductions.size();
}

}  // namespace

bool hasCanonicalReductionOrder(const Nest& nest, const TilePlan& plan) {
  return firstTooEarly(nest, plan) == plan.reductions.size();
}

void canonicalizeReductionOrder(const Nest& nest, TilePlan& plan) {
  for (size_t at = firstTooEarly(nest, plan); at < plan.reductions.size(); at = firstTooEarly(nest, plan))
    std::swap(plan.reductions[at], plan.reductions[at + 1]);
}

}  // namespace tessera::compiler::codegen
