#include "compiler/backends/hls/tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/text.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

constexpr const char* kProcessingElement = "pe";
constexpr const char* kPipeline = "pipeline";
constexpr const char* kBuffer = "buffer";

void addLoop(v1::Tile& tile, const std::string& name, int64_t step, const char* unit = "") {
  v1::Loop& loop = *tile.add_loops();
  loop.set_dimension(name);
  loop.set_step(step);
  loop.set_unit(unit);
}

}  // namespace

v1::Tile treeOf(const Design& design, const Device& device, int nest) {
  const Form& form = *design.form;
  v1::Tile outer;
  outer.set_level(device.externalLevel());
  outer.set_join(v1::Tile::PIPE);
  for (const bool reductions : {false, true})
    for (size_t loop = 0; loop < form.loops(); ++loop)
      if (form.reduction[loop] == reductions && design.tiling.tile[loop] < form.extent(loop))
        addLoop(outer, form.nest->loops[loop].name, design.tiling.tile[loop]);
  for (const Buffer& buffer : design.buffers) {
    v1::Stage& stage = *outer.add_stages();
    stage.set_layout(kBuffer);
    stage.set_operand(static_cast<int>(buffer.access));
    stage.add_order(storageName(buffer.storage));
    stage.mutable_strides()->Assign(buffer.partition.begin(), buffer.partition.end());
    stage.set_distance(buffer.beat);
    stage.set_ahead(static_cast<int>(buffer.copies) - 1);
    stage.set_within(buffer.written);
  }
  v1::Tile& inner = *outer.add_children();
  inner.set_level(device.onChipLevel());
  for (const bool reductions : {true, false})
    for (size_t loop = 0; loop < form.loops(); ++loop)
      if (form.reduction[loop] == reductions) addLoop(inner, form.nest->loops[loop].name, design.tiling.unroll[loop]);
  for (size_t loop = 0; loop < form.loops(); ++loop)
    if (design.tiling.unroll[loop] > 1) addLoop(inner, form.nest->loops[loop].name, 1, kProcessingElement);
  inner.mutable_kernel()->set_variant(kPipeline);
  inner.mutable_kernel()->set_nest(nest);
  return outer;
}

absl::StatusOr<Tiling> tilingOf(const v1::Tile& tree, const Form& form, const Device& device, int nest,
                                const Resources& limits) {
  const std::string here = absl::StrCat("tile ", nest);
  if (tree.children_size() != 1 || tree.children(0).kernel().variant() != kPipeline)
    return absl::InvalidArgumentError(absl::StrCat(here, " has ", tree.children_size(), " children; one child with a ",
                                                   kPipeline, " kernel is accepted"));
  Tiling tiling{.tile = form.nest->extents(), .unroll = std::vector<int64_t>(form.loops(), 1)};
  const auto read = [&](const v1::Tile& tile, const std::string& path, std::vector<int64_t>& to) -> absl::Status {
    for (const v1::Loop& loop : tile.loops()) {
      if (!loop.unit().empty()) continue;
      const auto found = std::ranges::find(form.nest->loops, loop.dimension(), &loopnest::Loop::name);
      if (found == form.nest->loops.end())
        return absl::InvalidArgumentError(absl::StrCat(path, ": nest ", nest, " has no loop ", loop.dimension()));
      to[static_cast<size_t>(found - form.nest->loops.begin())] = loop.step();
    }
    return absl::OkStatus();
  };
  TESSERA_RETURN_IF_ERROR(read(tree, here, tiling.tile));
  TESSERA_RETURN_IF_ERROR(read(tree.children(0), here + ".0", tiling.unroll));
  TESSERA_ASSIGN_OR_RETURN(const Design design, designOf(form, tiling, device, limits));
  const v1::Tile expected = treeOf(design, device, nest);
  if (deterministicBytes(expected) != deterministicBytes(tree))
    return absl::InvalidArgumentError(absl::StrCat(here, " is not the tree of its loops; that is\n",
                                                   printTileLine(expected), "\n  ", printTileLine(expected.children(0)),
                                                   "\nwith the buffers that follow from them"));
  return tiling;
}

}  // namespace tessera::compiler::hls
