#include "compiler/codegen/decision/record.h"

#include "compiler/schedule/words.h"

namespace tessera::compiler::codegen {
namespace {

v1::Tile leafOfStep(const RegionNestRun& step) {
  if (step.operand < 0) return leafOf(step.nest, step.plan, step.number);
  if (!step.shared) return packLeafOf(step.nest, step.plan, step.number, step.operand);
  v1::Tile leaf;
  leaf.mutable_kernel()->set_variant(std::string(words::kSharedPack));
  leaf.mutable_kernel()->set_nest(step.number);
  leaf.mutable_kernel()->set_operand(step.operand);
  return leaf;
}

v1::Tile tileOf(const RegionVariant& variant) {
  v1::Tile tile;
  tile.set_join(v1::Tile::SHAR);
  auto strip = variant.strips.begin();
  // Strips are ranges of steps in order, so one walk over the steps meets each of them once.
  for (size_t s = 0; s < variant.steps.size(); ++s) {
    if (strip == variant.strips.end() || s < strip->first) {
      *tile.add_children() = leafOfStep(variant.steps[s]);
      continue;
    }
    v1::Tile* rows = tile.add_children();
    rows->set_join(v1::Tile::SHAR);
    v1::Loop* loop = rows->add_loops();
    loop->set_dimension(std::string(words::kRows));
    loop->set_step(strip->rows);
    for (; s < strip->end; ++s) {
      v1::Tile leaf = leafOfStep(variant.steps[s]);
      leaf.mutable_loops(0)->clear_unit();  // the loop counts the strip's rows, it is not a grid
      *rows->add_children() = std::move(leaf);
    }
    --s;
    ++strip;
  }
  return tile;
}

v1::Tile tileOf(const Region& region, const Chip& chip) {
  v1::Tile tile;
  tile.set_level(chip.levelHolding(static_cast<double>(region.scratch_bytes)).name);
  tile.set_join(v1::Tile::SHAR);
  tile.set_deferred_softmax(region.deferred_softmax);
  for (const RegionCut& cut : region.cuts) {
    v1::Loop* loop = tile.add_loops();
    loop->set_dimension(cut.name);
    loop->set_step(cut.step);
    if (!cut.in_time) loop->set_unit(std::string(words::kCore));
  }
  for (const ScratchStrides& strides : region.strides) {
    v1::Stage* stage = tile.add_stages();
    stage->set_layout(std::string(words::kStrided));
    stage->set_nest(strides.nest);
    stage->set_statement(strides.statement);
    stage->set_operand(strides.result);
    stage->mutable_strides()->Assign(strides.strides.begin(), strides.strides.end());
  }
  for (const RegionVariant& variant : region.variants) *tile.add_children() = tileOf(variant);
  return tile;
}

v1::Tile tileOf(const Phase& phase, const Chip& chip) {
  if (phase.region) return tileOf(*phase.region, chip);
  v1::Tile tile;
  if (!phase.loops.empty()) {
    tile.mutable_kernel()->set_variant(std::string(words::kSequential));
    return tile;
  }
  tile.set_join(phase.concurrent ? v1::Tile::PARA : v1::Tile::SEQ);
  for (size_t n = 0; n < phase.nests.size(); ++n) {
    const auto& [nest, plan] = std::tie(phase.nests[n], phase.plans[n]);
    *tile.add_children() = phase.copies.empty() ? leafOf(nest, plan, phase.first + static_cast<int>(n))
                                                : packLeafOf(nest, plan, phase.copies[n].nest, phase.copies[n].input);
  }
  // A phase of one nest is written as that nest, without a node around it.
  if (tile.children_size() != 1) return tile;
  v1::Tile only = tile.children(0);
  return only;
}

}  // namespace

v1::Schedule scheduleOf(const PhaseList& list, const Chip& chip) {
  v1::Schedule schedule;
  schedule.set_vector_bits(chip.vectorBits());
  for (const auto& operations : list.fused)
    schedule.add_fused()->mutable_operations()->Assign(operations.begin(), operations.end());
  for (const Phase& phase : list.phases) *schedule.add_phases() = tileOf(phase, chip);
  return schedule;
}

}  // namespace tessera::compiler::codegen
