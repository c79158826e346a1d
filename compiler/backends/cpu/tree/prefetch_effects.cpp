#include "compiler/backends/cpu/emit/tile_prefetch.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/backends/cpu/tree/leaf.h"

namespace tessera::compiler::codegen {
namespace {

bool anyInput(const Nest& nest, llvm::function_ref<bool(const Access&)> holds) {
  return llvm::any_of(nest.statements[0].inputs, [&](const Operand& operand) {
    return operand.access.root && !operand.from && holds(operand.access);
  });
}

bool fetchesAhead(const Nest& nest, const TilePlan& plan) {
  const int step = plan.reductions.back();
  return anyInput(
      nest, [&](const Access& access) { return access.strides[plan.vector_loop] == 1 && access.strides[step] != 0; });
}

bool fetchesRows(const Nest& nest, const TilePlan& plan) {
  if (plan.reductions.size() < 2) return false;
  const int step = plan.reductions.back();  // a loop with several iterations within an iteration of the next outer one
  return plan.tile[step] < nest.extents[step] &&
         anyInput(nest, [&](const Access& access) { return access.strides[plan.vector_loop] == 0; });
}

/// A copy within blocks is prefetched only if it moves from step to step.
bool fetchesCopy(const Nest& nest, const TilePlan& plan, const BlockCopy& copy) {
  return plan.kernel->traits().fetches &&
         nest.statements[0].inputs[copy.input].access.strides[plan.reductions.back()] != 0;
}

bool fetchesResults(const Nest& nest, const TilePlan& plan) {
  for (const Statement& statement : nest.statements)
    for (auto [o, output] : llvm::enumerate(statement.outputs)) {
      const int64_t along = output.access.strides[plan.vector_loop];
      if (statement.stored[o] && (along == 0 || along == 1)) return true;
    }
  return false;
}

/// Which prefetches of `plan` touch any memory.
struct Effects {
  bool ahead = false, rows = false, panel = false, results = false, slices = false;
};

Effects effectsOf(const Nest& nest, const TilePlan& plan) {
  if (!plan.kernel->traits().fetches) return {};
  return {fetchesAhead(nest, plan), fetchesRows(nest, plan), prefetchesPanel(nest, plan), fetchesResults(nest, plan),
          true};
}

}  // namespace

std::string redundantSettings(const Nest& nest, const TilePlan& plan) {
  for (const BlockCopy& copy : plan.copies)
    if (copy.ahead > 0 && !fetchesCopy(nest, plan, copy)) return "the copy of an operand within blocks";
  const bool slices = !plan.next_slice.empty() || !plan.next_blocks.empty();
  if (plan.ahead == 0 && !plan.prefetch_rows && !plan.prefetch_panel && !plan.prefetch_results && !slices) return "";
  const Effects effects = effectsOf(nest, plan);
  if (plan.ahead > 0 && !effects.ahead) return "ahead";
  if (plan.prefetch_rows && !effects.rows) return "rows";
  if (plan.prefetch_panel && !effects.panel) return "panel";
  if (plan.prefetch_results && !effects.results) return "results";
  return slices && !effects.slices ? "next, blocks" : "";
}

void dropRedundantSettings(const Nest& nest, TilePlan& plan) {
  for (BlockCopy& copy : plan.copies) {
    if (fetchesCopy(nest, plan, copy)) continue;
    copy.ahead = 0;
    for (PackedOperand& packed : plan.packed)
      if (packed.input == copy.input) packed.ahead = 0;
  }
  const Effects effects = effectsOf(nest, plan);
  if (!effects.ahead) plan.ahead = 0;
  plan.prefetch_rows &= effects.rows;
  plan.prefetch_panel &= effects.panel;
  plan.prefetch_results &= effects.results;
  if (effects.slices) return;
  plan.next_slice.clear();
  plan.next_blocks.clear();
}

}  // namespace tessera::compiler::codegen
