#include "compiler/search/space.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

/// The position of a tile, valid in copies of the tree.
using Position = std::vector<int>;

v1::Tile& tileAt(v1::Schedule& schedule, const Position& position) {
  v1::Tile* tile = schedule.mutable_phases(position[0]);
  for (size_t level = 1; level < position.size(); ++level) tile = tile->mutable_children(position[level]);
  return *tile;
}

class Neighbourhood {
 public:
  Neighbourhood(const v1::Schedule& schedule, const Extents& extents)
      : schedule_(schedule), extents_(extents), seen_{printSchedule(schedule)} {}

  std::vector<Neighbour> run() {
    for (int phase = 0; phase < schedule_.phases_size(); ++phase)
      visit(schedule_.phases(phase), {phase}, childPath("", phase));
    if (schedule_.vector_bits() > 128) scaleVectors("/2", schedule_.vector_bits() / 2);
    scaleVectors("x2", schedule_.vector_bits() * 2);
    return std::move(found_);
  }

 private:
  /// Applies `move` to a copy of the tree, and adds the result if something changed and it is new.
  void add(const Direction& direction, const Position& position,
           const std::function<bool(v1::Schedule&, v1::Tile&)>& move) {
    // A move may fail halfway, so it works on a copy.
    v1::Schedule changed = schedule_;
    if (!move(changed, tileAt(changed, position))) return;
    const auto [text, added] = seen_.insert(printSchedule(changed));
    if (added) found_.push_back({direction, std::move(changed), *text});
  }

  void visit(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int child = 0; child < tile.children_size(); ++child) {
      Position deeper = position;
      deeper.push_back(child);
      visit(tile.children(child), deeper, childPath(path, child));
    }
    if (!tile.has_kernel()) {
      join(tile, position, path);
      return slices(tile, position, path);
    }
    // Copies to panels follow from the leaves that read them.
    if (!computes(tile.kernel())) return;
    std::set<std::string> dimensions(tile.kernel().reductions().begin(), tile.kernel().reductions().end());
    for (const v1::Loop& loop : tile.loops()) dimensions.insert(loop.dimension());
    for (const v1::Extent& extent : tile.kernel().tile()) dimensions.insert(extent.dimension());
    const bool resizable = traitsOf(tile.kernel().variant()).tile != KernelTraits::Tile::kWholeBlock;
    for (const std::string& dimension : dimensions) {
      if (resizable) tiles(tile, dimension, position, path);
      blocks(tile, dimension, position, path);
    }
    if (resizable) {
      pairs(tile, dimensions, position, path);
      for (const std::string& dimension : dimensions) lanes(tile, dimension, position, path);
    }
    variants(tile, position, path);
    orders(tile, position, path);
    binding(tile, position, path);
    fetches(tile, position, path);
    for (int stage = 0; stage < tile.stages_size(); ++stage)
      add({"stage", path, tile.stages(stage).layout(), "out"}, position,
          [&](v1::Schedule& schedule, v1::Tile& leaf) { return dropStage(schedule, leaf, stage); });
  }

  void tiles(const v1::Tile& tile, const std::string& dimension, const Position& position, const std::string& path) {
    const int64_t old = tileAlong(tile.kernel(), dimension);
    const int64_t unit = dimension == tile.kernel().vector_loop() ? std::max(1, tile.kernel().lanes()) : 1;
    std::vector<std::pair<std::string, int64_t>> changes = {
        {"x2", old * 2}, {"/2", old / 2}, {"+1", old + unit}, {"-1", old - unit}};
    if (const int64_t extent = extentOf(tile, dimension); extent > 0) {
      // Only divisors of the loop leave no remainder (thesis, 4.3.2).
      // Bounded, so that a long loop does not cost a search over all sizes.
      for (int64_t size = old + 1; size <= extent && size <= 8 * old; ++size)
        if (extent % size == 0) {
          changes.emplace_back("next divisor", size);
          break;
        }
      for (int64_t size = old - 1; size > 1; --size)
        if (extent % size == 0) {
          changes.emplace_back("last divisor", size);
          break;
        }
      changes.emplace_back("whole", extent);
    }
    for (const auto& [change, size] : changes)
      add({"tile", path, dimension, change}, position,
          [&, size = size](v1::Schedule& schedule, v1::Tile& leaf) { return resize(schedule, leaf, dimension, size); });
  }

  /// 0: unknown.
  int64_t extentOf(const v1::Tile& tile, const std::string& dimension) const {
    const auto known = extents_.find({tile.kernel().nest(), dimension});
    return known == extents_.end() ? 0 : known->second;
  }

  /// Sets the tile along a loop and everything that depends on it; limited to the loop's length.
  bool resize(v1::Schedule& schedule, v1::Tile& leaf, const std::string& dimension, int64_t size) const {
    const int64_t old = tileAlong(leaf.kernel(), dimension), extent = extentOf(leaf, dimension);
    const int64_t wanted = extent > 0 ? std::min(size, extent) : size;
    if (!setTile(leaf, dimension, wanted)) return false;
    if (extent > 0) dropWholeLoops(leaf, dimension, extent);
    setPanels(schedule, leaf, dimension, old, wanted);
    return true;
  }

  void pairs(const v1::Tile& tile, const std::set<std::string>& dimensions, const Position& position,
             const std::string& path) {
    for (const std::string& grows : dimensions)
      for (const std::string& shrinks : dimensions) {
        const int64_t more = tileAlong(tile.kernel(), grows) * 2, less = tileAlong(tile.kernel(), shrinks) / 2;
        if (grows == shrinks || less < 1) continue;
        add({"pair", path, grows + " " + shrinks, "x2 /2"}, position, [&](v1::Schedule& schedule, v1::Tile& leaf) {
          return resize(schedule, leaf, grows, more) && resize(schedule, leaf, shrinks, less);
        });
      }
  }

  /// The same number of vectors along another loop.
  void lanes(const v1::Tile& tile, const std::string& dimension, const Position& position, const std::string& path) {
    const std::string& old = tile.kernel().vector_loop();
    const int64_t lanes = std::max(1, tile.kernel().lanes());
    const int64_t less = std::max<int64_t>(1, tileAlong(tile.kernel(), old) / lanes);
    const int64_t more = std::max(lanes, tileAlong(tile.kernel(), dimension));
    add({"lanes", path, dimension, "along"}, position, [&](v1::Schedule& schedule, v1::Tile& leaf) {
      if (!setVectorLoop(leaf, dimension)) return false;
      (void)resize(schedule, leaf, old, less);
      (void)resize(schedule, leaf, dimension, more);
      return true;
    });
  }

  void variants(const v1::Tile& tile, const Position& position, const std::string& path) {
    const KernelTraits& traits = traitsOf(tile.kernel().variant());
    if (!traits.instead.empty())
      add({"variant", path, std::string(traits.name), std::string(traits.instead)}, position,
          [&](v1::Schedule&, v1::Tile& leaf) { return setVariant(leaf, traits.instead); });
  }

  void blocks(const v1::Tile& tile, const std::string& dimension, const Position& position, const std::string& path) {
    const std::vector<int64_t> blocks = blocksAlong(tile, dimension);
    const int64_t step = tileAlong(tile.kernel(), dimension);
    for (size_t level = 0; level < blocks.size(); ++level) {
      const int64_t inner = level + 1 < blocks.size() ? blocks[level + 1] : step;
      for (const auto& [change, wanted] :
           {std::pair{"x2", 2 * blocks[level]}, {"/2", blocks[level] / 2 / inner * inner}, {"out", int64_t{0}}})
        add({"block", path, dimension, level == 0 ? change : absl::StrCat(change, " within ", level)}, position,
            [&, wanted = wanted](v1::Schedule&, v1::Tile& leaf) { return setBlock(leaf, dimension, level, wanted); });
    }
    // Adds outer blocks only where the loop is known to be longer: otherwise they are refused or have a single
    // iteration.
    if (!blocks.empty() && 4 * blocks[0] < extentOf(tile, dimension))
      add({"block", path, dimension, "4 blocks"}, position,
          [&](v1::Schedule&, v1::Tile& leaf) { return addBlock(leaf, dimension, 4 * blocks[0]); });
    for (const int64_t count : blocks.empty() ? std::vector<int64_t>{4, 16, 64} : std::vector<int64_t>{})
      add({"block", path, dimension, absl::StrCat(count, " tiles")}, position,
          [&](v1::Schedule&, v1::Tile& leaf) { return addBlock(leaf, dimension, count * step); });
  }

  void orders(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int at = 0; at + 1 < tile.loops_size(); ++at)
      add({"order", path, "loops", absl::StrCat(at)}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        auto& loops = *leaf.mutable_loops();
        // Spatial loops stay outside of temporal ones, and levels of one loop keep their order.
        if (loops[at].unit() != loops[at + 1].unit() || loops[at].dimension() == loops[at + 1].dimension())
          return false;
        loops.SwapElements(at, at + 1);
        return true;
      });
    for (int at = 0; at + 1 < tile.kernel().points_size(); ++at)
      add({"order", path, "points", absl::StrCat(at)}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        leaf.mutable_kernel()->mutable_points()->SwapElements(at, at + 1);
        return true;
      });
    for (int at = 0; at + 1 < tile.kernel().reductions_size(); ++at)
      add({"order", path, "sums", absl::StrCat(at)}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        leaf.mutable_kernel()->mutable_reductions()->SwapElements(at, at + 1);
        return true;
      });
  }

  void binding(const v1::Tile& tile, const Position& position, const std::string& path) {
    // The boundary between spatial and temporal loops moves by one.
    int spatial = 0;
    while (spatial < tile.loops_size() && !tile.loops(spatial).unit().empty()) ++spatial;
    if (spatial < tile.loops_size())
      add({"bind", path, "core", "more"}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        leaf.mutable_loops(spatial)->set_unit(std::string(words::kCore));
        return true;
      });
    if (spatial > 0)
      add({"bind", path, "core", "less"}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        leaf.mutable_loops(spatial - 1)->clear_unit();
        return true;
      });
  }

  void join(const v1::Tile& tile, const Position& position, const std::string& path) {
    const bool nests = std::ranges::all_of(
        tile.children(), [](const v1::Tile& child) { return child.has_kernel() && computes(child.kernel()); });
    if (!nests || (tile.join() != v1::Tile::SEQ && tile.join() != v1::Tile::PARA)) return;
    const v1::Tile::Join other = tile.join() == v1::Tile::SEQ ? v1::Tile::PARA : v1::Tile::SEQ;
    add({"bind", path, "children", words::joinName(other)}, position, [&](v1::Schedule&, v1::Tile& changed) {
      changed.set_join(other);
      return true;
    });
  }

  void fetches(const v1::Tile& tile, const Position& position, const std::string& path) {
    const v1::Prefetch& fetch = tile.kernel().prefetch();
    auto change = [&](const char* what, const char* how, const std::function<void(v1::Prefetch&)>& set) {
      add({"fetch", path, what, how}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        v1::Prefetch& changed = *leaf.mutable_kernel()->mutable_prefetch();
        set(changed);
        if (changed.ByteSizeLong() == 0) leaf.mutable_kernel()->clear_prefetch();
        return true;
      });
    };
    for (const auto& [how, ahead] : {std::pair{"none", 0}, {"4", 4}, {"8", 8}, {"16", 16}})
      change("ahead", how, [ahead = ahead](v1::Prefetch& each) { each.set_ahead(ahead); });
    change("rows", "other", [&](v1::Prefetch& each) { each.set_rows(!fetch.rows()); });
    change("panel", "other", [&](v1::Prefetch& each) { each.set_panel(!fetch.panel()); });
    change("results", "other", [&](v1::Prefetch& each) { each.set_results(!fetch.results()); });
    for (int at = 0; at < tile.stages_size(); ++at)
      if (tile.stages(at).within())
        for (const auto& [how, ahead] : {std::pair{"none", 0}, {"8", 8}, {"16", 16}, {"32", 32}})
          add({"fetch", path, "copies", how}, position, [&, at, ahead = ahead](v1::Schedule&, v1::Tile& leaf) {
            leaf.mutable_stages(at)->set_ahead(ahead);
            return true;
          });
    // Products have short bodies, which gain nothing from interleaving.
    if (canInterleave(tile.kernel()) && !traitsOf(tile.kernel().variant()).streams)
      add({"fetch", path, "points", "interleaved"}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        leaf.mutable_kernel()->set_interleaved(!leaf.kernel().interleaved());
        return true;
      });
  }

  /// Whether this loop is over parts, and the next one over the slices within them.
  static bool isPart(const v1::Tile& tile, int at) {
    return at + 1 < tile.loops_size() && tile.loops(at).dimension() == tile.loops(at + 1).dimension();
  }

  /// Rounds parts to whole numbers of slices.
  static bool wholeParts(v1::Tile& tile) {
    for (int at = 0; at < tile.loops_size(); ++at) {
      if (!isPart(tile, at)) continue;
      v1::Loop& part = *tile.mutable_loops(at);
      const v1::Loop& slice = tile.loops(at + 1);
      part.set_step((part.step() + slice.step() - 1) / slice.step() * slice.step());
      if (part.step() == slice.step()) return false;
    }
    return true;
  }

  void slices(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int at = 0; at < tile.loops_size(); ++at)
      for (const auto& [change, step] : {std::pair{"x2", tile.loops(at).step() * 2}, {"/2", tile.loops(at).step() / 2}})
        add({"slices", path, absl::StrCat(tile.loops(at).dimension(), isPart(tile, at) ? " parts" : ""), change},
            position, [&, at, step = step](v1::Schedule&, v1::Tile& changed) {
              if (changed.loops(at).dimension() == words::kBlocks)
                for (v1::Loop& other : *changed.mutable_loops())
                  if (other.dimension() == words::kKeys) other.set_step(step);  // the mask removes keys in whole blocks
              changed.mutable_loops(at)->set_step(step);
              return step > 0 && wholeParts(changed);
            });
  }

  void scaleVectors(const char* change, int bits) {
    if (schedule_.phases().empty()) return;
    const int64_t before = schedule_.vector_bits();
    add({"vectors", "", "bits", change}, {0}, [&](v1::Schedule& schedule, v1::Tile&) {
      schedule.set_vector_bits(bits);
      std::function<void(v1::Tile&)> scale = [&](v1::Tile& tile) {
        if (tile.kernel().lanes() > 1) {
          tile.mutable_kernel()->set_lanes(static_cast<int32_t>(tile.kernel().lanes() * int64_t{bits} / before));
          orderPoints(*tile.mutable_kernel());
        }
        for (v1::Tile& child : *tile.mutable_children()) scale(child);
        for (v1::Stage& stage : *tile.mutable_stages())
          for (v1::Tile& copy : *stage.mutable_copies()) scale(copy);
      };
      for (v1::Tile& phase : *schedule.mutable_phases()) scale(phase);
      return true;
    });
  }

  const v1::Schedule& schedule_;
  const Extents& extents_;
  std::set<std::string> seen_;
  std::vector<Neighbour> found_;
};

}  // namespace

Direction Direction::opposite() const {
  static constexpr std::pair<const char*, const char*> kBack[] = {{"x", "/"}, {"/", "x"},       {"+", "-"},
                                                                  {"-", "+"}, {"next", "last"}, {"last", "next"}};
  Direction back = *this;
  if (kind == "pair") {
    const std::vector<std::string> loops = absl::StrSplit(subject, ' ');
    back.subject = absl::StrCat(loops.back(), " ", loops.front());
    return back;
  }
  for (const auto& [forth, reverse] : kBack) {
    if (!change.starts_with(forth)) continue;
    back.change = absl::StrCat(reverse, change.substr(std::string_view(forth).size()));
    return back;
  }
  return {};
}

std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule, const Extents& extents) {
  return Neighbourhood(schedule, extents).run();
}

}  // namespace tessera::compiler::search
