#include "compiler/backends/cpu/decide/decide_region.h"

#include "compiler/backends/cpu/decide/decide_nest.h"
#include "compiler/backends/cpu/decide/region_prefetches.h"
#include "compiler/backends/cpu/decide/region_steps.h"
#include "compiler/backends/cpu/decide/region_strips.h"
#include "compiler/backends/cpu/region/region_builder.h"
#include "compiler/backends/cpu/region/sliced_workload.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tree/leaf.h"
#include "compiler/schedule/words.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

struct DecidedRegion {
  Region region;
  std::vector<v1::Stage> layouts;  ///< of buffers that are not dense boxes
  std::vector<PackBefore> before;
};

/// Rows a multiple of an eighth of the near level's set span apart would share few of its sets, so such rows are padded
/// by one line. Returns the stages of the padded buffers.
std::vector<v1::Stage> padLayouts(RegionBuilder& builder, const Chip& chip) {
  const Chip::Level& near = chip.near();
  std::vector<v1::Stage> stages;
  for (mlir::Value buffer : builder.buffers()) {
    const ScratchLayout& layout = builder.layoutOf(buffer);
    // Buffers without memory stay dense: trees do not describe them, but strides decide which loops merge.
    if (!layout.in_memory || layout.whole) continue;
    const int64_t bytes = elementBits(llvm::cast<mlir::MemRefType>(buffer.getType()).getElementType()) / 8;
    const auto coordinates = static_cast<int>(layout.sizes.size());
    int outermost = 0;  // the first coordinate with several places: coordinates outside of it need no padding
    while (outermost + 1 < coordinates && layout.sizes[outermost] == 1) ++outermost;
    llvm::SmallVector<int64_t> strides(coordinates);
    int64_t stride = 1;
    for (int c = coordinates - 1; c >= 0; --c) {
      strides[c] = stride;
      stride *= layout.sizes[c];
      if (c > outermost && stride * bytes >= near.setSpan() / 4 && stride * bytes % (near.setSpan() / 8) == 0)
        stride += near.line_bytes / bytes;
    }
    const bool padded = layout.effective(strides) != layout.effective(denseStrides(layout.sizes));
    builder.setStrides(buffer, strides, stride);
    if (!padded || !layout.writer) continue;
    v1::Stage& stage = stages.emplace_back();
    stage.set_layout(std::string(words::kStrided));
    stage.set_nest(layout.writer->nest);
    stage.set_statement(layout.writer->statement);
    stage.set_operand(layout.writer->result);
    strides = layout.effective(std::move(strides));
    stage.mutable_strides()->Assign(strides.begin(), strides.end());
  }
  return stages;
}

absl::StatusOr<DecidedRegion> decideSlices(mlir::OpBuilder& builder, const SlicedNests& nests,
                                           llvm::ArrayRef<SliceLoop> loops, const Chip& chip) {
  DecidedRegion decided;
  TESSERA_ASSIGN_OR_RETURN(auto slices, RegionBuilder::create(nests, loops, chip));
  if (const std::optional<UnkeptRows> unkept = slices.unkeptRows())
    return refuseChain(unkept->message, unkept->found, unkept->accepted);
  TESSERA_RETURN_IF_ERROR(slices.layOut());
  decided.layouts = padLayouts(slices, chip);
  std::vector<std::vector<RegionNest>> sliced = slices.cut();
  Region& region = slices.region();
  RegionPanels panels(builder, region, decided.before);
  decideSteps(builder, chip, sliced, region, panels);
  formStrips(region, chip);
  prefetchNextSlice(region, chip);
  slices.placeScratch(panels.buffers());
  prefetchBlocks(region, chip);  // as many as fit in a cache with the scratch
  decided.region = slices.finish();
  for (RegionVariant& variant : decided.region.variants)
    for (RegionNestRun& step : variant.steps) completePlan(step.nest, chip, step.plan);
  return decided;
}

/// Decides the region with the mask's keys removed in the smallest groups for which a region can be formed, or without
/// the mask if that fails.
absl::StatusOr<DecidedRegion> decideMaskedSlices(mlir::OpBuilder& builder, SlicedNests& nests,
                                                 llvm::ArrayRef<SliceLoop> loops, const Chip& chip) {
  absl::StatusOr<DecidedRegion> decided = decideSlices(builder, nests, loops, chip);
  // If no coarser mask gives a region either, the first reason is reported, as it concerns the region that was wanted.
  absl::Status first = decided.status();
  while (nests.mask && !(decided.ok() && decided->region.keys_per_group > 0)) {
    PositionMask& mask = *nests.mask;
    mask.keys_per_group *= 2;
    if (decided.ok() || mask.blocks || mask.keys_per_group >= nests.nests[mask.nest].extents[mask.key])
      nests.mask.reset();
    decided = decideSlices(builder, nests, loops, chip);
  }
  if (!decided.ok() && !first.ok()) return first;
  return decided;
}

v1::Tile leafOfStep(const RegionNestRun& step) {
  if (step.operand < 0) return leafOf(step.nest, step.plan, step.number);
  if (!step.shared) return packLeafOf(step.nest, step.plan, step.number, step.operand);
  v1::Tile leaf;
  leaf.mutable_kernel()->set_variant(std::string(words::kSharedPack));
  leaf.mutable_kernel()->set_nest(step.number);
  leaf.mutable_kernel()->set_operand(step.operand);
  return leaf;
}

v1::Tile variantTile(const RegionVariant& variant) {
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

void addLoop(v1::Tile& tile, const std::string& name, int64_t step, bool in_time) {
  v1::Loop* loop = tile.add_loops();
  loop->set_dimension(name);
  loop->set_step(step);
  if (!in_time) loop->set_unit(std::string(words::kCore));
}

/// The slice loops, then the blocks of a sum, then the groups of keys that a mask removes.
void addLoops(v1::Tile& tile, const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops, const Region& region) {
  for (const SliceLoop& loop : loops) {
    if (loop.coordinate >= 0) {
      const std::string name = nameOf(nests.coordinates.at(nests.result), loop.coordinate);
      // First the loop over sequences, then the loop over the slices of a sequence.
      if (loop.sequence_length == 1 || region.sequences() > 1)
        addLoop(tile, name, loop.sequence_length * loop.tile, false);
      if (loop.sequence_length > 1) addLoop(tile, name, loop.tile, true);
    } else if (!loop.reductions.empty()) {
      addLoop(tile, std::string(words::kBlocks), loop.tile, true);
    }
  }
  if (region.keys_per_group > 0) addLoop(tile, std::string(words::kKeys), region.keys_per_group, true);
}

}  // namespace

absl::StatusOr<std::vector<v1::Tile>> decideRegion(mlir::OpBuilder& builder, SlicedNests nests,
                                                   llvm::SmallVector<SliceLoop> loops, const Chip& chip) {
  prepareSlices(builder, nests, loops);
  TESSERA_ASSIGN_OR_RETURN(auto decided, decideMaskedSlices(builder, nests, loops, chip));
  std::vector<v1::Tile> copies, phases;
  for (PackBefore& copy : decided.before) {
    splitGrid(copy.nest, chip, copy.plan);
    completePlan(copy.nest, chip, copy.plan);
    copies.push_back(packLeafOf(copy.nest, copy.plan, copy.number, copy.operand));
  }
  if (!copies.empty()) phases.push_back(phaseOf(std::move(copies)));
  v1::Tile& tile = phases.emplace_back();
  tile.set_level(chip.levelHolding(static_cast<double>(decided.region.scratch_bytes)).name);
  tile.set_join(v1::Tile::SHAR);
  tile.set_deferred_softmax(nests.deferred_softmax);
  addLoops(tile, nests, loops, decided.region);
  tile.mutable_stages()->Assign(decided.layouts.begin(), decided.layouts.end());
  for (const RegionVariant& variant : decided.region.variants) *tile.add_children() = variantTile(variant);
  return phases;
}

}  // namespace tessera::compiler::codegen
