#include "compiler/search/space.h"

#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

/// Where a tile stands: the same place in a copy of the tree.
using Position = std::vector<int>;

v1::Tile& tileAt(v1::Schedule& schedule, const Position& position) {
  v1::Tile* tile = schedule.mutable_phases(position[0]);
  for (size_t level = 1; level < position.size(); ++level) tile = tile->mutable_children(position[level]);
  return *tile;
}

class Neighbourhood {
 public:
  explicit Neighbourhood(const v1::Schedule& schedule) : schedule_(schedule), seen_{printSchedule(schedule)} {}

  std::vector<Neighbour> run() {
    for (int phase = 0; phase < schedule_.phases_size(); ++phase)
      visit(schedule_.phases(phase), {phase}, childPath("", phase));
    halveVectors();
    return std::move(found_);
  }

 private:
  /// Adds the tree that `move` makes of a copy, if there is anything to move and it is new.
  void add(const Direction& direction, const Position& position,
           const std::function<bool(v1::Schedule&, v1::Tile&)>& move) {
    v1::Schedule changed = schedule_;
    if (!move(changed, tileAt(changed, position)) || !seen_.insert(printSchedule(changed)).second) return;
    found_.push_back({direction, std::move(changed)});
  }

  void visit(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int child = 0; child < tile.children_size(); ++child) {
      Position deeper = position;
      deeper.push_back(child);
      visit(tile.children(child), deeper, childPath(path, child));
    }
    if (!tile.has_kernel()) return slices(tile, position, path);
    const std::string& variant = tile.kernel().variant();
    if (variant == words::kSequential || variant == words::kPack || variant == words::kSharedPack) return;
    std::set<std::string> dimensions(tile.kernel().reductions().begin(), tile.kernel().reductions().end());
    for (const v1::Loop& loop : tile.loops()) dimensions.insert(loop.dimension());
    for (const v1::Extent& extent : tile.kernel().tile()) dimensions.insert(extent.dimension());
    for (const std::string& dimension : dimensions) {
      tiles(tile, dimension, position, path);
      blocks(tile, dimension, position, path);
    }
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
    for (const auto& [change, size] :
         {std::pair{"x2", old * 2}, {"/2", old / 2}, {"+1", old + unit}, {"-1", old - unit}})
      add({"tile", path, dimension, change}, position, [&, size = size](v1::Schedule& schedule, v1::Tile& leaf) {
        if (!setTile(leaf, dimension, size)) return false;
        setPanels(schedule, leaf, dimension, old, size);
        return true;
      });
  }

  void blocks(const v1::Tile& tile, const std::string& dimension, const Position& position, const std::string& path) {
    const int64_t block = blockAlong(tile, dimension), step = tileAlong(tile.kernel(), dimension);
    const std::vector<std::pair<std::string, int64_t>> changes =
        block > 0 ? std::vector<std::pair<std::string, int64_t>>{{"x2", 2 * block},
                                                                 {"/2", block / 2 / step * step},
                                                                 {"out", 0}}
                  : std::vector<std::pair<std::string, int64_t>>{
                        {"4 tiles", 4 * step}, {"16 tiles", 16 * step}, {"64 tiles", 64 * step}};
    for (const auto& [change, wanted] : changes)
      add({"block", path, dimension, change}, position,
          [&, wanted = wanted](v1::Schedule&, v1::Tile& leaf) { return setBlock(leaf, dimension, wanted); });
  }

  void orders(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int at = 0; at + 1 < tile.loops_size(); ++at)
      add({"order", path, "loops", absl::StrCat(at)}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        auto& loops = *leaf.mutable_loops();
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

  void fetches(const v1::Tile& tile, const Position& position, const std::string& path) {
    const v1::Fetch& fetch = tile.kernel().fetch();
    auto change = [&](const char* what, const char* how, const std::function<void(v1::Fetch&)>& set) {
      add({"fetch", path, what, how}, position, [&](v1::Schedule&, v1::Tile& leaf) {
        v1::Fetch& changed = *leaf.mutable_kernel()->mutable_fetch();
        set(changed);
        if (changed.ByteSizeLong() == 0) leaf.mutable_kernel()->clear_fetch();
        return true;
      });
    };
    for (const auto& [how, ahead] : {std::pair{"none", 0}, {"4", 4}, {"8", 8}, {"16", 16}})
      change("ahead", how, [ahead = ahead](v1::Fetch& each) { each.set_ahead(ahead); });
    change("rows", "other", [&](v1::Fetch& each) { each.set_rows(!fetch.rows()); });
    change("panel", "other", [&](v1::Fetch& each) { each.set_panel(!fetch.panel()); });
    change("results", "other", [&](v1::Fetch& each) { each.set_results(!fetch.results()); });
  }

  void slices(const v1::Tile& tile, const Position& position, const std::string& path) {
    for (int at = 0; at < tile.loops_size(); ++at)
      for (const auto& [change, step] : {std::pair{"x2", tile.loops(at).step() * 2}, {"/2", tile.loops(at).step() / 2}})
        add({"slices", path, tile.loops(at).dimension(), change}, position,
            [&, at, step = step](v1::Schedule&, v1::Tile& changed) {
              changed.mutable_loops(at)->set_step(step);
              return step > 0;
            });
  }

  void halveVectors() {
    if (schedule_.vector_bits() <= 128 || schedule_.phases().empty()) return;
    add({"vectors", "", "bits", "/2"}, {0}, [](v1::Schedule& schedule, v1::Tile&) {
      schedule.set_vector_bits(schedule.vector_bits() / 2);
      std::function<void(v1::Tile&)> halve = [&](v1::Tile& tile) {
        if (tile.kernel().lanes() > 1) tile.mutable_kernel()->set_lanes(tile.kernel().lanes() / 2);
        for (v1::Tile& child : *tile.mutable_children()) halve(child);
        for (v1::Stage& stage : *tile.mutable_stages())
          for (v1::Tile& copy : *stage.mutable_copies()) halve(copy);
      };
      for (v1::Tile& phase : *schedule.mutable_phases()) halve(phase);
      return true;
    });
  }

  const v1::Schedule& schedule_;
  std::set<std::string> seen_;
  std::vector<Neighbour> found_;
};

}  // namespace

std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule) { return Neighbourhood(schedule).run(); }

}  // namespace tessera::compiler::search
