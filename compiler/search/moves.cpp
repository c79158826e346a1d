#include "compiler/search/moves.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <vector>

#include "absl/strings/numbers.h"
#include "compiler/schedule/kernel_traits.h"

namespace tessera::compiler::search {
namespace {

void setExtent(v1::Kernel& kernel, const std::string& dimension, int64_t size) {
  auto& tile = *kernel.mutable_tile();
  const auto at = std::ranges::find(tile, dimension, &v1::Extent::dimension);
  if (size == 1) {
    if (at != tile.end()) tile.erase(at);
  } else if (at != tile.end()) {
    at->set_size(size);
  } else {
    v1::Extent* extent = tile.Add();
    extent->set_dimension(dimension);
    extent->set_size(size);
    // Leaves list the loops of a tile in order (leaf_read.cpp).
    std::ranges::sort(tile, {}, [](const v1::Extent& each) { return loopNumber(each.dimension()); });
  }
}

/// Calls fn for every leaf below, including copies of stages.
void forEachLeaf(google::protobuf::RepeatedPtrField<v1::Tile>& tiles, const std::function<void(v1::Tile&)>& fn) {
  for (v1::Tile& tile : tiles) {
    if (tile.has_kernel()) fn(tile);
    forEachLeaf(*tile.mutable_children(), fn);
    for (v1::Stage& stage : *tile.mutable_stages()) forEachLeaf(*stage.mutable_copies(), fn);
  }
}

bool packs(const v1::Tile& tile, int nest, int operand) {
  return tile.kernel().variant() == words::kPack && tile.kernel().nest() == nest && tile.kernel().operand() == operand;
}

void dropPacks(google::protobuf::RepeatedPtrField<v1::Tile>& tiles, int nest, int operand) {
  for (int at = tiles.size() - 1; at >= 0; --at) {
    if (tiles[at].has_kernel() ? packs(tiles[at], nest, operand) : false) {
      tiles.erase(tiles.begin() + at);
    } else {
      dropPacks(*tiles[at].mutable_children(), nest, operand);
    }
  }
}

}  // namespace

int loopNumber(const std::string& dimension) {
  int number = -1;
  return !dimension.empty() && absl::SimpleAtoi(dimension.substr(1), &number) ? number : -1;
}

bool isReduction(const std::string& dimension) { return dimension.starts_with("r"); }

bool copies(const v1::Kernel& kernel) { return traitsOf(kernel.variant()).runs == KernelTraits::Runs::kCopy; }

bool computes(const v1::Kernel& kernel) { return traitsOf(kernel.variant()).runs == KernelTraits::Runs::kNest; }

int64_t pointsAlong(const v1::Kernel& kernel, const v1::Extent& extent) {
  if (extent.dimension() != kernel.vector_loop()) return extent.size();
  return (extent.size() + kernel.lanes() - 1) / std::max(1, kernel.lanes());
}

void orderPoints(v1::Kernel& kernel) {
  std::vector<std::string> several;
  for (const v1::Extent& extent : kernel.tile())
    if (!isReduction(extent.dimension()) && pointsAlong(kernel, extent) > 1) several.push_back(extent.dimension());
  std::vector<std::string> points;
  for (const std::string& point : kernel.points())
    if (std::ranges::find(several, point) != several.end()) points.push_back(point);
  for (const std::string& point : several)
    if (std::ranges::find(points, point) == points.end())
      // The vector loop stays last: its final vector may be partial.
      points.insert(!points.empty() && points.back() == kernel.vector_loop() ? points.end() - 1 : points.end(), point);
  kernel.clear_points();
  for (const std::string& point : points) kernel.add_points(point);
  if (!canInterleave(kernel)) kernel.clear_interleaved();
}

bool canInterleave(const v1::Kernel& kernel) {
  int64_t points = 1;
  for (const v1::Extent& extent : kernel.tile())
    if (!isReduction(extent.dimension())) points *= pointsAlong(kernel, extent);
  return traitsOf(kernel.variant()).interleaves && points > 1;
}

void dropWholeLoops(v1::Tile& leaf, const std::string& dimension, int64_t extent) {
  auto& loops = *leaf.mutable_loops();
  for (int at = loops.size() - 1; at >= 0; --at)
    if (loops[at].dimension() == dimension && loops[at].step() >= extent) loops.erase(loops.begin() + at);
}

bool setVariant(v1::Tile& leaf, std::string_view variant) {
  v1::Kernel& kernel = *leaf.mutable_kernel();
  if (kernel.variant() == variant) return false;
  kernel.set_variant(std::string(variant));
  if (!canInterleave(kernel)) kernel.clear_interleaved();
  if (traitsOf(variant).prefetches_vectors || !kernel.has_prefetch()) return true;
  // The new kernel prefetches no vectors; an empty message would not be accepted.
  kernel.mutable_prefetch()->set_ahead(0);
  if (kernel.prefetch().ByteSizeLong() == 0) kernel.clear_prefetch();
  return true;
}

bool setVectorLoop(v1::Tile& leaf, const std::string& dimension) {
  v1::Kernel& kernel = *leaf.mutable_kernel();
  const KernelTraits& traits = traitsOf(kernel.variant());
  const std::string_view variant = isReduction(dimension) ? traits.summing : traits.staying;
  if (kernel.lanes() < 2 || kernel.vector_loop() == dimension || variant.empty() || !leaf.stages().empty())
    return false;
  kernel.set_variant(std::string(variant));
  kernel.set_vector_loop(dimension);
  kernel.clear_transposed();
  kernel.clear_prefetch();  // the prefetches were chosen for vectors along the other loop
  orderPoints(kernel);
  return true;
}

int64_t tileAlong(const v1::Kernel& kernel, const std::string& dimension) {
  const auto at = std::ranges::find(kernel.tile(), dimension, &v1::Extent::dimension);
  return at == kernel.tile().end() ? 1 : at->size();
}

bool setTile(v1::Tile& leaf, const std::string& dimension, int64_t size) {
  v1::Kernel& kernel = *leaf.mutable_kernel();
  const int64_t old = tileAlong(kernel, dimension);
  if (size < 1 || size == old) return false;
  auto& loops = *leaf.mutable_loops();
  bool walked = false;
  int64_t inner = size;
  for (int at = loops.size() - 1; at >= 0; --at) {
    v1::Loop& loop = loops[at];
    if (loop.dimension() != dimension) continue;
    if (loop.step() == old && !isReduction(dimension)) {
      loop.set_step(size);
      walked = true;
      continue;
    }
    // Blocks keep their number of parts, from the innermost one outwards.
    const int64_t parts = std::max<int64_t>(1, loop.step() / inner);
    if (parts == 1) {
      loops.erase(loops.begin() + at);
    } else {
      inner *= parts;
      loop.set_step(inner);
    }
  }
  // A tile that covered the whole loop has shrunk: a loop over tiles must be added.
  if (!walked && !isReduction(dimension) && size < old) {
    v1::Loop* loop = loops.Add();
    loop->set_dimension(dimension);
    loop->set_step(size);
  }
  setExtent(kernel, dimension, size);
  orderPoints(kernel);
  return true;
}

void setPanels(v1::Schedule& schedule, v1::Tile& leaf, const std::string& dimension, int64_t old_size, int64_t size) {
  for (const v1::Stage& stage : leaf.stages()) {
    if (stage.layout() != words::kPanels || stage.along() != dimension) continue;
    const int nest = leaf.kernel().nest(), operand = stage.operand();
    forEachLeaf(*schedule.mutable_phases(), [&](v1::Tile& copy) {
      if (!packs(copy, nest, operand)) return;
      const std::vector<v1::Extent> extents(copy.kernel().tile().begin(), copy.kernel().tile().end());
      for (const v1::Extent& extent : extents)
        // The copy's tile along a panel is as wide as the panel.
        if (extent.size() == old_size) setTile(copy, extent.dimension(), size);
    });
  }
}

namespace {

/// Positions of the leaf's block loops along a dimension, outermost first.
std::vector<int> blockLoops(const v1::Tile& leaf, const std::string& dimension) {
  const int64_t tile = tileAlong(leaf.kernel(), dimension);
  std::vector<int> found;
  for (int at = 0; at < leaf.loops_size(); ++at)
    if (const v1::Loop& loop = leaf.loops(at);
        loop.dimension() == dimension && (loop.step() != tile || isReduction(dimension)))
      found.push_back(at);
  return found;
}

}  // namespace

std::vector<int64_t> blocksAlong(const v1::Tile& leaf, const std::string& dimension) {
  std::vector<int64_t> steps;
  for (const int at : blockLoops(leaf, dimension)) steps.push_back(leaf.loops(at).step());
  return steps;
}

bool setBlock(v1::Tile& leaf, const std::string& dimension, size_t level, int64_t step) {
  auto& loops = *leaf.mutable_loops();
  const std::vector<int> blocks = blockLoops(leaf, dimension);
  if (level >= blocks.size()) return false;
  if (step == 0) {
    loops.erase(loops.begin() + blocks[level]);
    return true;
  }
  const int64_t inner =
      level + 1 < blocks.size() ? loops[blocks[level + 1]].step() : tileAlong(leaf.kernel(), dimension);
  if (step == loops[blocks[level]].step() || step <= inner || step % inner != 0) return false;
  if (level > 0)
    if (const int64_t outer = loops[blocks[level - 1]].step(); step >= outer || outer % step != 0) return false;
  loops[blocks[level]].set_step(step);
  return true;
}

void setBlocks(v1::Tile& leaf, const std::string& dimension, const std::vector<int64_t>& steps) {
  const std::vector<int> blocks = blockLoops(leaf, dimension);
  if (blocks.size() == steps.size()) {
    for (size_t level = 0; level < steps.size(); ++level) leaf.mutable_loops(blocks[level])->set_step(steps[level]);
    return;
  }
  for (const int at : blocks | std::views::reverse) leaf.mutable_loops()->erase(leaf.mutable_loops()->begin() + at);
  for (const int64_t step : steps | std::views::reverse) addBlock(leaf, dimension, step);
}

bool addBlock(v1::Tile& leaf, const std::string& dimension, int64_t step) {
  auto& loops = *leaf.mutable_loops();
  const std::vector<int64_t> blocks = blocksAlong(leaf, dimension);
  const int64_t inner = blocks.empty() ? tileAlong(leaf.kernel(), dimension) : blocks[0];
  if (blocks.size() == kMaxBlockLevels || step <= inner || step % inner != 0) return false;
  // Before the loop's own levels and before all temporal loops, since spatial ones must be outermost.
  const auto walks = std::ranges::find(loops, dimension, &v1::Loop::dimension);
  const auto in_time = std::ranges::find_if(loops, [](const v1::Loop& loop) { return loop.unit().empty(); });
  const auto position = static_cast<int>(std::min(walks, in_time) - loops.begin());
  const std::string unit = walks < in_time ? walks->unit() : "";
  v1::Loop* made = loops.Add();
  made->set_dimension(dimension);
  made->set_step(step);
  made->set_unit(unit);
  for (int at = loops.size() - 1; at > position; --at) loops.SwapElements(at, at - 1);
  return true;
}

bool dropStage(v1::Schedule& schedule, v1::Tile& leaf, int index) {
  const v1::Stage stage = leaf.stages(index);
  if (stage.layout() == words::kStrided) return false;
  const int nest = leaf.kernel().nest();
  leaf.mutable_stages()->DeleteSubrange(index, 1);
  if (!stage.within()) dropPacks(*schedule.mutable_phases(), nest, stage.operand());
  return true;
}

}  // namespace tessera::compiler::search
