#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/backends/cpu/tree/leaf.h"
#include "compiler/schedule/words.h"

namespace tessera::compiler::codegen {
namespace {

/// Levels with one iteration are not written: the tile covers the whole extent of their loop.
bool repeats(const Nest& nest, const TilePlan& plan, size_t level) {
  return plan.count(nest, static_cast<int>(level)) > 1;
}

v1::Stage stageOf(const Nest& nest, const TilePlan& plan, const PackedOperand& packed, int number) {
  v1::Stage stage;
  stage.set_layout(std::string(packed.strided_copy ? words::kApart : words::kPanels));
  stage.set_operand(packed.input);
  stage.set_along(loopName(nest, packed.loop));
  for (int loop : packed.order) stage.add_order(loopName(nest, loop));
  stage.set_distance(packed.distance);
  if (!packed.within) return stage;
  stage.set_within(true);
  stage.set_ahead(static_cast<int32_t>(packed.ahead));
  int outside = 0;
  // Counts only the levels that are written as loops.
  for (int level = 0; level < plan.copy_level; ++level) outside += repeats(nest, plan, level) ? 1 : 0;
  stage.set_outside(outside);
  for (const BlockCopy& copy : plan.copies) {
    if (copy.input != packed.input) continue;
    for (auto [each, its] : llvm::zip_equal(copy.nests, copy.plans))
      *stage.add_copies() = packLeafOf(each, its, number, packed.input);
  }
  return stage;
}

v1::Reference referenceTo(const BufferReference& buffer) {
  v1::Reference reference;
  reference.set_child(buffer.step);
  reference.set_statement(buffer.statement);
  reference.set_result(buffer.result);
  reference.set_index(buffer.index);
  return reference;
}

v1::Prefetch fetchOf(const TilePlan& plan) {
  v1::Prefetch fetch;
  fetch.set_ahead(static_cast<int32_t>(plan.ahead));
  fetch.set_rows(plan.prefetch_rows);
  fetch.set_panel(plan.prefetch_panel);
  fetch.set_results(plan.prefetch_results);
  for (const PrefetchedRuns& runs : plan.next_slice) *fetch.add_next_slice() = referenceTo(runs.source);
  for (const NextBlock& block : plan.next_blocks) *fetch.add_next_blocks() = referenceTo(block.source);
  return fetch;
}

}  // namespace

std::string loopName(const Nest& nest, int loop) { return absl::StrCat(nest.reduction[loop] ? "r" : "i", loop); }

v1::Tile leafOf(const Nest& nest, const TilePlan& plan, int number) {
  v1::Tile leaf;
  for (size_t level = 0; level < plan.levels.size(); ++level) {
    if (!repeats(nest, plan, level)) continue;
    v1::Loop* loop = leaf.add_loops();
    loop->set_dimension(loopName(nest, plan.levels[level].loop));
    loop->set_step(plan.levels[level].step);
    if (static_cast<int>(level) < plan.grid_levels) loop->set_unit(std::string(words::kCore));
  }
  v1::Kernel& kernel = *leaf.mutable_kernel();
  kernel.set_variant(std::string(plan.kernel->traits().name));
  kernel.set_nest(number);
  if (const auto& step = nest.statements[0].step) kernel.set_instruction(step->name());
  kernel.set_lanes(plan.lanes);
  if (plan.lanes > 1) kernel.set_vector_loop(loopName(nest, plan.vector_loop));
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (plan.tile[loop] > 1) {
      v1::Extent* extent = kernel.add_tile();
      extent->set_dimension(loopName(nest, loop));
      extent->set_size(plan.tile[loop]);
    }
  for (int loop : plan.points)
    if (pointsAlong(plan, loop) > 1) kernel.add_points(loopName(nest, loop));
  for (int loop : plan.reductions) kernel.add_reductions(loopName(nest, loop));
  if (plan.transposed >= 0) kernel.set_transposed(loopName(nest, plan.transposed));
  kernel.set_interleaved(plan.interleaved);
  if (v1::Prefetch fetch = fetchOf(plan); fetch.ByteSizeLong() > 0) *kernel.mutable_prefetch() = std::move(fetch);
  for (const PackedOperand& packed : plan.packed) *leaf.add_stages() = stageOf(nest, plan, packed, number);
  return leaf;
}

v1::Tile packLeafOf(const Nest& copy, const TilePlan& plan, int number, int operand) {
  v1::Tile leaf = leafOf(copy, plan, number);
  leaf.mutable_kernel()->set_operand(operand);
  return leaf;
}

}  // namespace tessera::compiler::codegen
