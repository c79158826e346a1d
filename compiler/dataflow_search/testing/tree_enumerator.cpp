#include "compiler/dataflow_search/testing/tree_enumerator.h"

#include <algorithm>

#include "compiler/dataflow_search/running_reductions.h"
#include "compiler/dataflow_search/tile_space.h"

namespace tessera::compiler::dataflow_search {
namespace {

class Enumerator {
 public:
  Enumerator(const loopnest::Nest& nest, const cost::Machine& machine, size_t most)
      : nest_(nest), machine_(machine), most_(most), outermost_(static_cast<int>(machine.memories.size()) - 1) {
    for (const loopnest::Loop& loop : nest.loops) whole_.push_back(loop.extent);
  }

  std::optional<std::vector<v1::Schedule>> run() {
    std::vector<v1::Schedule> all;
    extend({}, 0, all);
    if (too_many_) return std::nullopt;
    return all;
  }

 private:
  int statements() const { return static_cast<int>(nest_.statements.size()); }

  void extend(const v1::Schedule& schedule, int begin, std::vector<v1::Schedule>& all) {
    if (begin == statements()) {
      all.push_back(schedule);
      too_many_ = too_many_ || all.size() > most_;
      return;
    }
    for (int end = begin + 1; end <= statements() && !too_many_; ++end) {
      for (const v1::Tile& phase : phases(begin, end)) {
        v1::Schedule longer = schedule;
        *longer.add_phases() = phase;
        extend(longer, end, all);
        if (too_many_) return;
      }
    }
  }

  std::vector<v1::Tile> phases(int begin, int end) {
    std::vector<v1::Tile> all;
    if (end - begin == 1) return chains(begin, outermost_, whole_);
    for (int split = outermost_; split >= 1; --split)
      for (const v1::Tile::Join join : {v1::Tile::SEQ, v1::Tile::SHAR, v1::Tile::PIPE})
        for (v1::Tile& tile : shared(begin, end, outermost_, split, join, whole_)) all.push_back(std::move(tile));
    return all;
  }

  std::vector<v1::Tile> shared(int begin, int end, int level, int split, v1::Tile::Join join, const Extents& extents) {
    std::vector<int> loops;
    for (int loop = 0; loop < static_cast<int>(nest_.loops.size()); ++loop)
      if (!windowLoops(nest_)[static_cast<size_t>(loop)] && usedBy(begin, end, loop)) loops.push_back(loop);
    std::vector<v1::Tile> all;
    forEachTile(level, extents, loops, begin, end, [&](v1::Tile tile, const Extents& left) {
      if (level > split) {
        for (const v1::Tile& inner : shared(begin, end, level - 1, split, join, left)) {
          all.push_back(tile);
          *all.back().add_children() = inner;
        }
        return;
      }
      tile.set_join(join);
      std::vector<v1::Tile> grown = {tile};
      for (int s = begin; s < end; ++s) {
        std::vector<v1::Tile> more;
        const std::vector<v1::Tile> choices = chains(s, level - 1, insideOf(begin, end, left));
        for (const v1::Tile& each : grown) {
          for (const v1::Tile& choice : choices) {
            more.push_back(each);
            *more.back().add_children() = choice;
          }
        }
        grown = std::move(more);
        too_many_ = too_many_ || grown.size() + all.size() > most_;
        if (too_many_) return;
      }
      all.insert(all.end(), grown.begin(), grown.end());
    });
    return all;
  }

  /// The iterations in one step of the tile: a producer runs over what its consumers read.
  Extents insideOf(int begin, int end, const Extents& left) const {
    Extents inside = left;
    for (int r = end - 1; r > begin; --r) {
      const Extents reader = r == end - 1 ? left : inside;
      for (int w = begin; w < r; ++w) {
        const loopnest::Access& written = at(nest_.accesses, at(nest_.statements, w).output);
        for (const int input : at(nest_.statements, r).inputs) {
          const loopnest::Access& read = at(nest_.accesses, input);
          if (read.name != written.name) continue;
          for (size_t d = 0; d < read.subscripts.size(); ++d) {
            int64_t span = 1;
            for (const loopnest::Term& term : read.subscripts[d].terms)
              span += term.coefficient * (at(reader, term.loop) - 1);
            const int own = written.subscripts[d].terms[0].loop;
            const bool has =
                std::ranges::find(at(nest_.statements, r).loops, own) != at(nest_.statements, r).loops.end();
            if (!has) at(inside, own) = std::min(at(inside, own), span);
          }
        }
      }
    }
    return inside;
  }

  std::vector<v1::Tile> chains(int s, int level, const Extents& extents) {
    const std::vector<int>& own = at(nest_.statements, s).loops;
    std::vector<v1::Tile> all;
    if (level == 0) {
      for (size_t unit = 0; unit < machine_.units.size(); ++unit) {
        const double flops = at(nest_.statements, s).body.flops;
        forEachLeafCut(extents, own, std::max<int64_t>(1, machine_.units[unit].count / machine_.memories[0].instances),
                       machine_.units[unit].operations_per_cycle / (flops > 0 ? flops : 1),
                       [&](const TileLoops& spatial, const TileLoops& temporal) {
                         for (const TileLoops& order : ordersOf(temporal, everything(s, s + 1))) {
                           v1::Tile& tile = all.emplace_back(tileOf(0, spatial, order, false));
                           tile.mutable_kernel()->set_variant("compute");
                           tile.mutable_kernel()->set_nest(s);
                           if (unit > 0) tile.mutable_kernel()->set_instruction(machine_.units[unit].name);
                         }
                         return true;
                       });
      }
      return all;
    }
    std::vector<int> loops;
    for (const int loop : own)
      if (!windowLoops(nest_)[static_cast<size_t>(loop)]) loops.push_back(loop);
    forEachTile(level, extents, loops, s, s + 1, [&](const v1::Tile& tile, const Extents& left) {
      for (const v1::Tile& inner : chains(s, level - 1, left)) {
        all.push_back(tile);
        *all.back().add_children() = inner;
      }
      too_many_ = too_many_ || all.size() > most_;
    });
    return all;
  }

  template <typename Use>
  void forEachTile(int level, const Extents& extents, const std::vector<int>& loops, int begin, int end,
                   const Use& use) {
    const int64_t fan_out =
        std::max<int64_t>(1, at(machine_.memories, level - 1).instances / at(machine_.memories, level).instances);
    forEachCut(extents, loops, fan_out, [&](const TileLoops& spatial, const TileLoops& temporal) {
      bool running = false, partial = false;
      for (const TileLoops* each : {&spatial, &temporal}) {
        for (const TileLoop& loop : *each) {
          for (int s = begin; s < end && end - begin > 1; ++s) {
            const bool is_running = isRunningReduction(nest_, s, loop.loop);
            running = running || is_running;
            partial =
                partial || (!is_running && nest_.isReduction(loop.loop, static_cast<size_t>(s)) && readWithin(s, end));
          }
        }
      }
      if (running && partial) return true;  // the mark would also hide a sum that is read too early
      Extents left = extents;
      for (const TileLoops* each : {&spatial, &temporal})
        for (const TileLoop& loop : *each) at(left, loop.loop) = loop.step;
      for (const TileLoops& order : ordersOf(temporal, everything(begin, end))) {
        use(tileOf(level, spatial, order, running), left);
        if (too_many_) return false;
      }
      return true;
    });
  }

  Movers everything(int begin, int end) const {
    Movers movers = moversOf(nest_, begin, end);
    movers.disjoint = false;  // all orders, also those of equal movement
    return movers;
  }

  bool usedBy(int begin, int end, int loop) const {
    for (int s = begin; s < end; ++s)
      if (std::ranges::find(at(nest_.statements, s).loops, loop) != at(nest_.statements, s).loops.end()) return true;
    return false;
  }

  bool readWithin(int s, int end) const {
    for (int r = s + 1; r < end; ++r)
      for (const int input : at(nest_.statements, r).inputs)
        if (at(nest_.accesses, input).name == at(nest_.accesses, at(nest_.statements, s).output).name) return true;
    return false;
  }

  v1::Tile tileOf(int level, const TileLoops& spatial, const TileLoops& temporal, bool running) const {
    v1::Tile tile;
    tile.set_level(at(machine_.memories, level).name);
    for (const TileLoops* each : {&spatial, &temporal}) {
      for (const TileLoop& loop : *each) {
        v1::Loop* added = tile.add_loops();
        added->set_dimension(at(nest_.loops, loop.loop).name);
        added->set_step(loop.step);
        if (loop.spatial) added->set_unit(machine_.units[0].name);
      }
    }
    tile.set_deferred_softmax(running);
    return tile;
  }

  const loopnest::Nest& nest_;
  const cost::Machine& machine_;
  const size_t most_;
  const int outermost_;
  Extents whole_;
  bool too_many_ = false;
};

}  // namespace

std::optional<std::vector<v1::Schedule>> enumerateTrees(const loopnest::Nest& nest, const cost::Machine& machine,
                                                        size_t most) {
  return Enumerator(nest, machine, most).run();
}

}  // namespace tessera::compiler::dataflow_search
