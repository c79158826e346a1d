#include "compiler/backends/cpu/apply/apply_region.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/apply/region_settings.h"
#include "compiler/backends/cpu/apply/region_steps.h"
#include "compiler/backends/cpu/region/region_builder.h"
#include "compiler/backends/cpu/region/sliced_workload.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// A tree may pad buffers up to this multiple of the size they need.
constexpr int64_t kMaxPadding = 16;

/// Applies the strides of the tree's stages to the slices' own buffers.
absl::Status applyLayouts(RegionBuilder& builder, const Leaf& tile) {
  int used = 0;
  for (mlir::Value buffer : builder.buffers()) {
    const ScratchLayout& layout = builder.layoutOf(buffer);
    if (!layout.writer || !layout.in_memory) continue;
    // Stages are in the order of first use; a buffer without a stage stays dense.
    if (used == tile.tile->stages_size()) break;
    const v1::Stage& stage = tile.tile->stages(used);
    if (stage.layout() != words::kStrided || stage.nest() != layout.writer->nest ||
        stage.statement() != layout.writer->statement || stage.operand() != layout.writer->result)
      continue;
    ++used;
    const llvm::SmallVector<int64_t> least = layout.effective(denseStrides(layout.sizes));
    llvm::SmallVector<int64_t> strides(stage.strides().begin(), stage.strides().end());
    bool fits = !layout.whole && strides.size() == least.size() && strides != least;
    int64_t elements = 1;  // of the inner coordinates
    for (int c = static_cast<int>(least.size()) - 1; fits && c >= 0; --c) {
      // A stride must step over all inner elements, and may pad them by a bounded factor.
      fits = least[c] == 0 ? strides[c] == 0 : strides[c] >= elements && strides[c] <= kMaxPadding * least[c];
      if (least[c] > 0) elements = strides[c] * layout.sizes[c];
    }
    if (!fits || stage.within() || !stage.order().empty() || !stage.along().empty() || !stage.copies().empty() ||
        stage.outside() != 0 || stage.distance() != 0 || stage.ahead() != 0)
      return scheduleFault(tile.path, absl::StrCat("strides of the result of nest ", stage.nest()),
                           absl::StrJoin(stage.strides(), ","),
                           layout.whole ? "none: it keeps the workload's layout"
                                        : absl::StrCat("at least ", absl::StrJoin(least, ","),
                                                       ", which is without "
                                                       "a stage, and at most ",
                                                       kMaxPadding, " times that"));
    builder.setStrides(buffer, std::move(strides), elements);
  }
  if (used == tile.tile->stages_size()) return absl::OkStatus();
  return scheduleFault(tile.path, "stages of the slices' own buffers, each once, in the order of first use",
                       absl::StrCat(tile.tile->stages_size(), " stages, ", used, " buffers"), "");
}

std::string namesOf(const Coordinates& coordinates) {
  std::string names;
  for (int c = 0; c < coordinates.size(); ++c)
    absl::StrAppend(&names, names.empty() ? "" : ", ", nameOf(coordinates, c), " (", coordinates.extents[c], ")");
  return names.empty() ? "none" : names;
}

/// Applies the tree's mask: removes masked keys in groups of `keys_per_group` keys; 0: the mask is not used.
absl::Status applyMask(SlicedNests& nests, int64_t keys_per_group, const ParsedRegion& parsed) {
  if (keys_per_group == 0) {
    nests.mask.reset();
    return absl::OkStatus();
  }
  auto fault = [&](const std::string& accepted) {
    return scheduleFault(parsed.tile.path, "keys of a group that a mask removes", absl::StrCat(keys_per_group),
                         accepted);
  };
  if (!nests.mask) return fault("no loop over keys: no softmax that is rewritten has a mask that compares positions");
  PositionMask& mask = *nests.mask;
  // If the softmax runs in blocks, the loop over blocks is the loop over keys.
  if (mask.blocks && keys_per_group != mask.keys_per_group)
    return fault(absl::StrCat(mask.keys_per_group, ", the blocks of the sum"));
  mask.keys_per_group = keys_per_group;
  return absl::OkStatus();
}

absl::StatusOr<Region> applySlices(mlir::OpBuilder& builder, const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                   const Chip& chip, std::vector<PackBefore>& before, const ParsedRegion& parsed) {
  const std::string& path = parsed.tile.path;
  TESSERA_ASSIGN_OR_RETURN(auto slices, RegionBuilder::create(nests, loops, chip));
  if (const std::optional<UnkeptRows> unkept = slices.unkeptRows())
    return scheduleFault(path, unkept->message, unkept->found, unkept->accepted);
  TESSERA_RETURN_IF_ERROR(slices.layOut());
  Region& region = slices.region();
  if (parsed.variants.size() != region.variants.size())
    return scheduleFault(path, "kinds of slices: full slices, last slices, slices at a border",
                         absl::StrCat(parsed.variants.size()), absl::StrCat(region.variants.size()));
  TESSERA_RETURN_IF_ERROR(applyLayouts(slices, parsed.tile));
  std::vector<std::vector<RegionNest>> sliced = slices.cut();
  RegionPanels panels(builder, region, before);
  TESSERA_RETURN_IF_ERROR(applySteps(builder, chip, sliced, region, panels, parsed));
  // Strips before scratch, scratch before prefetches: each relies on the one before.
  TESSERA_RETURN_IF_ERROR(applyStrips(region, parsed));
  slices.placeScratch(panels.buffers());
  TESSERA_RETURN_IF_ERROR(applyPrefetches(region, chip, parsed));
  Region finished = slices.finish();
  if (nests.mask && finished.keys_per_group == 0)
    return scheduleFault(path, "the mask removes no group of this many keys from any slice",
                         absl::StrCat(nests.mask->keys_per_group), "smaller groups, or no loop over keys");
  return finished;
}

void replacePhases(PhaseList& list, Region region, std::vector<PackBefore> before) {
  // The region replaces all phases, so the first reason for a phase boundary is kept for the report.
  std::string cut;
  for (const Phase& phase : list.phases)
    if (cut.empty()) cut = phase.cut;
  list.phases.clear();
  if (!before.empty()) {
    Phase& packing = list.phases.emplace_back();
    for (PackBefore& copy : before) {
      packing.nests.push_back(std::move(copy.nest));
      packing.plans.push_back(std::move(copy.plan));
      packing.copies.push_back({copy.number, copy.operand});
    }
  }
  Phase& phase = list.phases.emplace_back();
  phase.region = std::move(region);
  phase.cut = cut;
}

}  // namespace

absl::Status applyRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedRegion& parsed) {
  const v1::Tile& tile = *parsed.tile.tile;
  auto fault = [&](const std::string& message, const std::string& found, const std::string& accepted) {
    return scheduleFault(parsed.tile.path, message, found, accepted);
  };
  TESSERA_ASSIGN_OR_RETURN(auto nests, flattenPhases(list));
  if (!nests.result) return fault("the workload computes nothing", "no operation", "");
  const Coordinates coordinates = nests.coordinates.at(nests.result);
  llvm::SmallVector<SliceLoop> loops;
  int64_t blocks = 0;  // of the reduction
  int64_t keys = 0;    // in a group of the mask
  for (const v1::Loop& loop : tile.loops()) {
    const std::string& name = loop.dimension();
    const bool key_groups = name == words::kKeys, reduction = name == words::kBlocks || key_groups;
    if (keys > 0 || (blocks > 0 && !key_groups))
      return fault("the last loops must be the one over blocks of the reduction, then the one over groups of keys",
                   name, "");
    // Only the last loop may run in time: its slices follow each other directly, which keeping halos requires.
    const bool in_time = !reduction && loop.unit().empty() && &loop == &*tile.loops().rbegin();
    if (loop.unit() != (reduction || in_time ? "" : words::kCore))
      return fault(
          absl::StrCat("unit of ", name), loop.unit().empty() ? "none" : loop.unit(),
          reduction ? "none: a reduction runs on one unit"
                    : absl::StrCat(std::string(words::kCore), ", or none of the last loop, whose slices keep halos"));
    int c = 0;
    while (!reduction && c < coordinates.size() && nameOf(coordinates, c) != name) ++c;
    const int64_t extent = reduction ? lastReduction(nests) : c < coordinates.size() ? coordinates.extents[c] : 0;
    // the preceding loop over sequences is along the same coordinate
    const bool within = in_time && !loops.empty() && loops.back().coordinate == c;
    const auto cut = [&](const SliceLoop& other) { return other.coordinate == c && !reduction; };
    if (extent == 0 || llvm::any_of(llvm::ArrayRef(loops).drop_back(within ? 1 : 0), cut))
      return fault("not a dimension of the first result, or a dimension that is cut twice", name, namesOf(coordinates));
    if (loop.step() < 1 || loop.step() >= extent)
      return fault(absl::StrCat("slices along ", name), absl::StrCat(loop.step()),
                   absl::StrCat("1 to ", extent - 1, ", or no loop to keep it whole"));
    if (in_time) {
      const int64_t part = within ? loops.pop_back_val().tile : extent;
      const int64_t slices = slicesOfSequence(extent, part, loop.step());
      if (slices == 0)
        return fault(absl::StrCat("slices of ", loop.step(), " along ", name, " in sequences of ", part),
                     absl::StrCat(loop.step()), absl::StrCat("a divisor of ", part, ", at most half of it"));
      loops.push_back({.coordinate = c, .tile = loop.step(), .sequence_length = slices});
    } else if (key_groups) {
      keys = loop.step();
    } else if (reduction) {
      blocks = loop.step();
    } else {
      loops.push_back({c, loop.step()});
    }
  }
  auto builder = mlir::OpBuilder::atBlockBegin(&func.getBody().front());
  if (tile.deferred_softmax()) {
    TESSERA_ASSIGN_OR_RETURN(auto running, rewriteSoftmax(builder, nests, blocks));
    if (!nests.deferred_softmax)
      return fault("no softmax between products that could run in slices", "softmax", "no rewriting");
    if (running) loops.push_back(std::move(*running));
  } else if (blocks > 0) {
    return fault("blocks of a reduction without an online softmax", std::string(words::kBlocks), "softmax");
  }
  TESSERA_RETURN_IF_ERROR(applyMask(nests, keys, parsed));
  prepareSlices(builder, nests, loops);
  std::vector<PackBefore> before;
  TESSERA_ASSIGN_OR_RETURN(auto region, applySlices(builder, nests, loops, chip, before, parsed));
  if (const std::string level = chip.levelHolding(static_cast<double>(region.scratch_bytes)).name;
      tile.level() != level)
    return fault(absl::StrCat("memory level for the intermediates, ", region.scratch_bytes, " bytes"), tile.level(),
                 level);
  replacePhases(list, std::move(region), std::move(before));
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
