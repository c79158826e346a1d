#include "compiler/search/legality.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/summary.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

constexpr int kSeveral = 2;  // number of refusals after which a direction that never worked is given up

/// Registers that hold the sums of the tile.
int64_t accumulators(const v1::Kernel& kernel) {
  int64_t points = 1;
  for (const v1::Extent& extent : kernel.tile())
    if (!isReduction(extent.dimension())) points *= pointsAlong(kernel, extent);
  return points;
}

std::string badLoops(const v1::Tile& leaf, const Extents& extents) {
  const v1::Kernel& kernel = leaf.kernel();
  bool in_grid = true;
  std::map<std::string, std::vector<int64_t>> steps;
  for (const v1::Loop& loop : leaf.loops()) {
    const std::string& dimension = loop.dimension();
    const int64_t tile = tileAlong(kernel, dimension);
    const auto extent = extents.find({kernel.nest(), dimension});
    if (loop.step() < 1 || loop.step() % tile != 0) return "a step is not a multiple of the tile";
    if (extent != extents.end() && loop.step() >= extent->second) return "a step is as long as its loop, or longer";
    if (isReduction(dimension) && loop.step() <= tile) return "a reduction loop around the tile is not a block";
    steps[dimension].push_back(loop.step());
    if (loop.unit().empty()) {
      in_grid = false;
    } else if (!in_grid || isReduction(dimension)) {
      return "a spatial loop is a reduction, or is inside of a temporal loop";
    }
  }
  for (const auto& [dimension, sizes] : steps) {
    const int64_t tile = tileAlong(kernel, dimension);
    if (sizes.size() > kMaxBlockLevels + (isReduction(dimension) ? 0 : 1))
      return "a loop has too many levels of blocks";
    if (!isReduction(dimension) && sizes.back() != tile) return "no loop walks all tiles";
    for (size_t level = 0; level + 1 < sizes.size(); ++level)
      if (sizes[level] <= sizes[level + 1] || sizes[level] % sizes[level + 1] != 0)
        return "a block is not a multiple of the level inside of it";
    // Partial sums of a block are kept in the output, which only products support.
    const bool may_block = traitsOf(kernel.variant()).streams && !kernel.reductions().empty();
    if (isReduction(dimension) && (!may_block || dimension != kernel.reductions(0)))
      return "only the outermost reduction of a product is cut into blocks";
  }
  return "";
}

/// A copy within blocks must hold whole tiles of the loops that its operand walks.
std::string badStages(const v1::Tile& leaf) {
  int spatial = 0;
  for (const v1::Loop& loop : leaf.loops()) spatial += loop.unit().empty() ? 0 : 1;
  for (const v1::Stage& stage : leaf.stages()) {
    if (!stage.within()) continue;
    if (stage.outside() < std::max(1, spatial) || stage.outside() > leaf.loops_size())
      return "a copy within blocks is placed outside of them";
    for (int at = 0; at < stage.outside(); ++at) {
      const v1::Loop& loop = leaf.loops(at);
      const bool walks = std::ranges::find(stage.order(), loop.dimension()) != stage.order().end();
      if (walks && loop.step() > 1 && loop.step() == tileAlong(leaf.kernel(), loop.dimension()))
        return "a loop over tiles that the operand walks is outside of its copy";
    }
  }
  return "";
}

std::string badFetch(const v1::Kernel& kernel) {
  const v1::Prefetch& fetch = kernel.prefetch();
  if (!kernel.has_prefetch()) return "";
  const KernelTraits& traits = traitsOf(kernel.variant());
  if (!traits.fetches) return "only reductions of vectors prefetch";
  if (fetch.rows() && kernel.reductions_size() < 2) return "prefetching rows needs an outer reduction";
  if (fetch.ahead() > 0 && !traits.prefetches_vectors) return "the kernel prefetches no vectors";
  return "";
}

/// Whether a valid leaf implies that this loop of its nest is not of this length.
bool contradicts(const v1::Tile& leaf, const std::pair<int, std::string>& loop, int64_t extent) {
  const v1::Kernel& kernel = leaf.kernel();
  if (kernel.nest() != loop.first || copies(kernel)) return false;
  const int64_t tile = tileAlong(kernel, loop.second);
  bool walked = false;
  for (const v1::Loop& each : leaf.loops()) {
    if (each.dimension() != loop.second) continue;
    walked = true;
    if (each.step() >= extent) return true;
  }
  return tile > extent || (!walked && !isReduction(loop.second) && tile != extent);
}

}  // namespace

Extents extentsOf(const v1::Schedule& schedule) {
  Extents extents;
  std::map<std::pair<int, std::string>, int> leaves;  // with several kinds of slices, one nest has several leaves
  for (const v1::Tile* leaf : leavesOf(schedule)) {
    const v1::Kernel& kernel = leaf->kernel();
    if (copies(kernel)) continue;
    for (const v1::Extent& extent : kernel.tile()) {
      const std::string& dimension = extent.dimension();
      const std::pair key{kernel.nest(), dimension};
      const bool walked =
          std::ranges::any_of(leaf->loops(), [&](const v1::Loop& loop) { return loop.dimension() == dimension; });
      if (isReduction(dimension) || walked) continue;
      ++leaves[key];
      extents[key] = std::max(extents[key], extent.size());
    }
  }
  // If a nest has several leaves, each has extents of its own.
  for (const auto& [key, count] : leaves)
    if (count > 1) extents.erase(key);
  return extents;
}

Legality::Legality(const v1::Schedule& start, Extents extents, const v1::RegisterFile& registers)
    : extents_(std::move(extents)),
      vector_registers_(registers.vector_count()),
      most_vector_bits_(std::max(start.vector_bits(), registers.vector_bits())),
      most_accumulators_(registers.vector_count()) {
  // In slices of a region, loops are shorter than the workload's: drop extents that the start contradicts.
  for (const v1::Tile* leaf : leavesOf(start))
    std::erase_if(extents_, [&](const auto& each) { return contradicts(*leaf, each.first, each.second); });
  for (const auto& [key, extent] : extentsOf(start)) extents_.try_emplace(key, extent);
  for (const v1::Tile* leaf : leavesOf(start))
    if (traitsOf(leaf->kernel().variant()).streams)
      most_accumulators_ = std::max(most_accumulators_, accumulators(leaf->kernel()));
}

std::string Legality::refusalOf(const v1::Tile& leaf, int vector_bits) const {
  const v1::Kernel& kernel = leaf.kernel();
  const KernelTraits& traits = traitsOf(kernel.variant());
  if (traits.runs == KernelTraits::Runs::kOperations) return "";
  if ((kernel.lanes() == 1) != kernel.vector_loop().empty())
    return "a kernel has a vector loop exactly if it has several lanes";
  if (kernel.lanes() > 1 && vector_bits / kernel.lanes() < 8) return "a lane is narrower than a byte";
  int64_t inside = 1;
  for (const v1::Extent& extent : kernel.tile()) {
    if (extent.size() < 2) return "the tile lists a loop of one iteration";
    const auto known = extents_.find({kernel.nest(), extent.dimension()});
    if (!copies(kernel) && known != extents_.end() && extent.size() > known->second)
      return "a tile is longer than its loop";
    inside *= pointsAlong(kernel, extent);
    if (extent.dimension() == kernel.transposed() && extent.size() > kernel.lanes())
      return "a transposed square has more rows than a vector has lanes";
  }
  if (inside > kMaxInTile) return "a tile is too large to be unrolled";
  if (copies(kernel)) return "";
  if (traits.tile == KernelTraits::Tile::kNone && !kernel.tile().empty()) return "the kernel has no tile";
  const int64_t steps = kernel.reductions().empty() ? 1 : tileAlong(kernel, *kernel.reductions().rbegin());
  if (accumulators(kernel) < traits.least_points || steps < traits.least_steps)
    return absl::StrCat("a tile of the kernel has ", traits.least_points, " points and ", traits.least_steps,
                        " steps of the innermost sum at least");
  if (vector_registers_ > 0 && traits.streams && accumulators(kernel) > most_accumulators_)
    return "more results than the chip has registers";
  // A loop that the tile does not cover must be walked by a loop of the leaf, or iterations would be left out.
  if (traits.tile != KernelTraits::Tile::kWholeBlock)
    for (const auto& [key, extent] : extents_) {
      if (key.first != kernel.nest() || isReduction(key.second)) continue;
      const bool walked =
          std::ranges::any_of(leaf.loops(), [&](const v1::Loop& loop) { return loop.dimension() == key.second; });
      if (!walked && tileAlong(kernel, key.second) != extent) return "no loop walks all tiles";
    }
  if (kernel.interleaved() && !canInterleave(kernel)) return "there are not several points to interleave";
  for (const std::string& reason : {badLoops(leaf, extents_), badFetch(kernel), badStages(leaf)})
    if (!reason.empty()) return reason;
  return "";
}

std::string Legality::refusal(const v1::Schedule& schedule) const {
  if (schedule.vector_bits() > most_vector_bits_) return "vectors are wider than the chip's";
  for (const v1::Tile* leaf : leavesOf(schedule))
    if (std::string reason = refusalOf(*leaf, schedule.vector_bits()); !reason.empty()) return reason;
  return "";
}

bool Legality::hopeless(const Direction& direction) const {
  const auto count = directions_.find(absl::StrCat(direction.path, " ", direction.type()));
  return count != directions_.end() && count->second.refused >= kSeveral && count->second.followed == 0;
}

void Legality::recordTrial(const Direction& direction, bool followed) {
  Count& count = directions_[absl::StrCat(direction.path, " ", direction.type())];
  ++(followed ? count.followed : count.refused);
}

}  // namespace tessera::compiler::search
