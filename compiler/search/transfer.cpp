#include "compiler/search/transfer.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/text.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

/// Computing leaves, in order.
void collect(google::protobuf::RepeatedPtrField<v1::Tile>& tiles, std::vector<v1::Tile*>& leaves) {
  for (v1::Tile& tile : tiles) {
    if (tile.has_kernel() && computes(tile.kernel())) leaves.push_back(&tile);
    collect(*tile.mutable_children(), leaves);
  }
}

bool comparable(const v1::Tile& mine, const v1::Tile& other) {
  const v1::Kernel &a = mine.kernel(), &b = other.kernel();
  return a.nest() == b.nest() && a.vector_loop() == b.vector_loop() &&
         std::is_permutation(a.reductions().begin(), a.reductions().end(), b.reductions().begin(),
                             b.reductions().end());
}

/// Whether the loop walks register tiles rather than blocks of them.
bool walksTiles(const v1::Tile& leaf, const v1::Loop& loop) {
  return loop.step() == tileAlong(leaf.kernel(), loop.dimension());
}

/// Reorders the loops, and binds them to units, as in the other tree; no change if the loops differ.
void takeOrder(v1::Tile& mine, const v1::Tile& other) {
  if (mine.loops_size() != other.loops_size()) return;
  google::protobuf::RepeatedPtrField<v1::Loop> ordered;
  std::set<int> used;
  for (const v1::Loop& wanted : other.loops())
    for (int at = 0; at < mine.loops_size(); ++at) {
      const v1::Loop& loop = mine.loops(at);
      if (loop.dimension() != wanted.dimension() || walksTiles(mine, loop) != walksTiles(other, wanted)) continue;
      if (!used.insert(at).second) continue;
      *ordered.Add() = loop;
      ordered.rbegin()->set_unit(wanted.unit());
      break;
    }
  if (ordered.size() == mine.loops_size()) *mine.mutable_loops() = ordered;
}

void takeNames(google::protobuf::RepeatedPtrField<std::string>& mine,
               const google::protobuf::RepeatedPtrField<std::string>& other) {
  if (std::is_permutation(mine.begin(), mine.end(), other.begin(), other.end())) mine = other;
}

void takeFetch(v1::Kernel& mine, const v1::Kernel& other) {
  v1::Prefetch& fetch = *mine.mutable_prefetch();  // prefetches between slices depend on the shapes and are kept
  fetch.set_ahead(traitsOf(mine.variant()).prefetches_vectors ? other.prefetch().ahead() : 0);
  fetch.set_rows(other.prefetch().rows());
  fetch.set_panel(other.prefetch().panel());
  fetch.set_results(other.prefetch().results());
  if (fetch.ByteSizeLong() == 0) mine.clear_prefetch();
  mine.set_interleaved(other.interleaved() && canInterleave(mine));
}

class Carrier {
 public:
  Carrier(v1::Schedule& schedule, const Extents& extents) : schedule_(schedule), extents_(extents) {}

  void carry(v1::Tile& mine, const v1::Tile& other) {
    if (traitsOf(mine.kernel().variant()).instead == other.kernel().variant())
      setVariant(mine, other.kernel().variant());
    for (int at = mine.stages_size() - 1; at >= 0; --at) {
      const v1::Stage& stage = mine.stages(at);
      const auto kept = std::ranges::any_of(other.stages(), [&](const v1::Stage& each) {
        return each.layout() == stage.layout() && each.operand() == stage.operand();
      });
      if (!kept) dropStage(schedule_, mine, at);
    }
    std::set<std::string> dimensions(mine.kernel().reductions().begin(), mine.kernel().reductions().end());
    for (const v1::Loop& loop : mine.loops()) dimensions.insert(loop.dimension());
    for (const v1::Extent& extent : mine.kernel().tile()) dimensions.insert(extent.dimension());
    if (traitsOf(mine.kernel().variant()).tile != KernelTraits::Tile::kWholeBlock)
      for (const std::string& dimension : dimensions) carryAlong(mine, other, dimension);
    takeOrder(mine, other);
    takeNames(*mine.mutable_kernel()->mutable_points(), other.kernel().points());
    takeNames(*mine.mutable_kernel()->mutable_reductions(), other.kernel().reductions());
    takeFetch(*mine.mutable_kernel(), other.kernel());
  }

 private:
  void carryAlong(v1::Tile& mine, const v1::Tile& other, const std::string& dimension) {
    const v1::Kernel &kernel = mine.kernel(), &model = other.kernel();
    const auto known = extents_.find({kernel.nest(), dimension});
    const int64_t extent = known == extents_.end() ? INT64_MAX : known->second;
    int64_t size = tileAlong(model, dimension);
    // With a different vector width: the same number of vectors.
    if (dimension == kernel.vector_loop()) size = size * std::max(1, kernel.lanes()) / std::max(1, model.lanes());
    size = std::clamp<int64_t>(size, 1, extent);
    const int64_t old = tileAlong(kernel, dimension);
    if (setTile(mine, dimension, size)) {
      if (extent != INT64_MAX) dropWholeLoops(mine, dimension, extent);
      setPanels(schedule_, mine, dimension, old, size);
    }
    carryBlocks(mine, other, dimension, extent);
  }

  /// The same number of block levels, each rounded to multiples of the next inner one.
  static void carryBlocks(v1::Tile& mine, const v1::Tile& other, const std::string& dimension, int64_t extent) {
    std::vector<int64_t> wanted;
    int64_t inner = tileAlong(mine.kernel(), dimension);
    for (const int64_t step : blocksAlong(other, dimension) | std::views::reverse)
      if (const int64_t block = step / inner * inner; block > inner && block < extent)
        wanted.insert(wanted.begin(), inner = block);
    setBlocks(mine, dimension, wanted);
  }

  v1::Schedule& schedule_;
  const Extents& extents_;
};

}  // namespace

std::optional<v1::Schedule> transferSchedule(const v1::Schedule& start, const v1::Schedule& other,
                                             const Extents& extents) {
  v1::Schedule carried = start, model = other;
  std::vector<v1::Tile*> mine, others;
  collect(*carried.mutable_phases(), mine);
  collect(*model.mutable_phases(), others);
  if (mine.size() != others.size()) return std::nullopt;
  for (size_t at = 0; at < mine.size(); ++at)
    if (!comparable(*mine[at], *others[at])) return std::nullopt;
  Carrier carrier(carried, extents);
  // Dropping a stage removes its copies, so leaves are collected again for each nest.
  for (size_t at = 0; at < mine.size(); ++at) {
    std::vector<v1::Tile*> now;
    collect(*carried.mutable_phases(), now);
    carrier.carry(*now[at], *others[at]);
  }
  if (printSchedule(carried) == printSchedule(start)) return std::nullopt;
  return carried;
}

}  // namespace tessera::compiler::search
