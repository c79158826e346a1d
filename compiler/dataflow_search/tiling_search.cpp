#include "compiler/dataflow_search/tiling_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/cost/bound_tree.h"
#include "compiler/dataflow_search/tile_space.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::dataflow_search {
namespace {

constexpr double kExploration = 0.5;  ///< weight of the confidence term; rewards are between 0 and 1

}  // namespace

TilingSearch::TilingSearch(const loopnest::Nest& nest, const cost::Machine& machine, Structure structure, Price price)
    : nest_(nest),
      machine_(machine),
      structure_(std::move(structure)),
      price_(std::move(price)),
      windows_(windowLoops(nest)),
      nodes_(1) {}

void TilingSearch::sample(std::mt19937_64& random) {
  path_ = {0};
  v1::Schedule schedule;
  const int statements = static_cast<int>(nest_.statements.size());
  bool valid = true;
  for (int begin = 0; begin < statements && valid;) {
    int end = begin + 1;
    while (end < statements && structure_.fused[static_cast<size_t>(end - 1)]) ++end;
    valid = buildPhase(schedule, begin, end, random);
    begin = end;
  }
  const double score = valid ? price_(schedule) : std::numeric_limits<double>::infinity();
  double reward = 0;
  if (std::isfinite(score)) {
    best_ = best_ == 0 ? score : std::min(best_, score);
    reward = score > 0 ? best_ / score : 1;
  }
  for (const size_t node : path_) {
    nodes_[node].reward += reward;
    ++nodes_[node].visits;
  }
}

bool TilingSearch::buildPhase(v1::Schedule& schedule, int begin, int end, std::mt19937_64& random) {
  const int outermost = static_cast<int>(machine_.memories.size()) - 1;
  const int split = end - begin == 1 ? outermost : at(structure_.split, begin);
  v1::Tile* tile = schedule.add_phases();
  std::vector<int64_t> extents = nest_.extents();
  for (int level = outermost; level >= split; --level) {
    if (level < outermost) tile = tile->add_children();
    tile->set_level(at(machine_.memories, level).name);
    tile->set_join(level == split && end - begin > 1 ? at(structure_.joins, begin) : v1::Tile::SEQ);
    if (!decideTile({.proto = tile, .level = level, .begin = begin, .end = end}, extents, random)) return false;
  }
  for (int s = begin; s < end; ++s) {
    v1::Tile* leaf = tile->add_children();
    leaf->set_level(at(machine_.memories, split - 1).name);
    leaf->mutable_kernel()->set_variant("compute");
    leaf->mutable_kernel()->set_nest(s);
  }
  // The iterations of each statement inside of the shared tiles: producers follow their consumers.
  v1::Schedule whole = schedule;
  for (int s = end; s < static_cast<int>(nest_.statements.size()); ++s) {
    v1::Tile* other = whole.add_phases();
    other->set_level(at(machine_.memories, outermost).name);
    other->mutable_kernel()->set_variant("compute");
    other->mutable_kernel()->set_nest(s);
  }
  const auto bound = bindTree(nest_, whole, machine_);
  if (!bound.ok()) return false;
  for (int s = begin; s < end; ++s) {
    const auto& inside = at(bound->statements, s).extents.back();
    std::vector<int64_t> own(inside.begin(), inside.end());
    v1::Tile* inner = tile->mutable_children(s - begin);
    const v1::Kernel kernel = inner->kernel();
    inner->clear_kernel();
    for (int level = split - 1; level >= 0; --level) {
      if (level < split - 1) inner = inner->add_children();
      inner->set_level(at(machine_.memories, level).name);
      if (level == 0) {
        *inner->mutable_kernel() = kernel;
      } else {
        inner->set_join(v1::Tile::SEQ);
      }
      if (!decideTile({.proto = inner, .level = level, .begin = s, .end = s + 1}, own, random)) return false;
    }
  }
  return true;
}

bool TilingSearch::decideTile(const Tile& tile, std::vector<int64_t>& extents, std::mt19937_64& random) {
  std::vector<int> loops;
  for (int loop = 0; loop < static_cast<int>(nest_.loops.size()); ++loop) {
    if (tile.level > 0 && at(windows_, loop)) continue;
    for (int s = tile.begin; s < tile.end; ++s) {
      const std::vector<int>& own = at(nest_.statements, s).loops;
      if (std::ranges::find(own, loop) == own.end()) continue;
      loops.push_back(loop);
      break;
    }
  }
  std::ranges::sort(loops, {}, [&](int loop) { return std::pair(at(at(structure_.rank, tile.level), loop), loop); });
  const int64_t inner = tile.level > 0 ? at(machine_.memories, tile.level - 1).instances : machine_.units[0].count;
  int64_t instances = std::max<int64_t>(1, inner / at(machine_.memories, tile.level).instances);
  double iterations = 1;
  std::vector<bool> decided(nest_.loops.size(), true);
  for (const int loop : loops) at(decided, loop) = false;
  std::vector<TileLoop> temporal;
  for (const int loop : loops) {
    at(decided, loop) = true;
    const std::vector<Choice> offered = choices(tile, loop, extents, instances, iterations, decided);
    if (offered.empty()) return false;
    const Choice choice = offered[select(offered.size(), random)];
    const int64_t extent = at(extents, loop);
    const auto add = [&](int64_t step, bool spatial) {
      v1::Loop* added = tile.proto->add_loops();
      added->set_dimension(at(nest_.loops, loop).name);
      added->set_step(step);
      if (spatial) added->set_unit(machine_.units[0].name);
    };
    if (choice.spatial > 1) add(extent / choice.spatial, true);
    if (extent / choice.spatial > choice.step)
      temporal.push_back({.loop = loop, .step = choice.step, .count = extent / choice.spatial / choice.step});
    at(extents, loop) = choice.step;
    instances /= choice.spatial;
    iterations *= static_cast<double>(choice.step);
  }
  for (const TileLoop& loop : temporal) {
    v1::Loop* added = tile.proto->add_loops();
    added->set_dimension(at(nest_.loops, loop.loop).name);
    added->set_step(loop.step);
  }
  return true;
}

std::vector<TilingSearch::Choice> TilingSearch::choices(const Tile& tile, int loop, const std::vector<int64_t>& extents,
                                                        int64_t instances, double iterations,
                                                        const std::vector<bool>& decided) const {
  std::vector<Choice> offered;
  const double flops = std::max(1.0, at(nest_.statements, tile.begin).body.flops);
  const double most = std::max(1.0, machine_.units[0].operations_per_cycle / flops);
  std::vector<int64_t> left = extents;
  for (const int64_t spatial : divisorsOf(at(extents, loop))) {
    if (spatial > instances) break;
    for (const int64_t step : divisorsOf(at(extents, loop) / spatial)) {
      if (tile.level == 0 && step > 1 && iterations * static_cast<double>(step) > most) break;
      at(left, loop) = step;
      if (tile.level > 0 && !couldFit(tile, left, decided)) break;
      offered.push_back({.spatial = spatial, .step = step});
    }
  }
  return offered;
}

/// Whether the slices of each statement fit the level inside if all loops without a size get steps of 1.
bool TilingSearch::couldFit(const Tile& tile, const std::vector<int64_t>& extents,
                            const std::vector<bool>& decided) const {
  const int64_t capacity = at(machine_.memories, tile.level - 1).capacity_bytes;
  if (capacity == 0) return true;
  for (int s = tile.begin; s < tile.end; ++s) {
    std::map<std::string, int64_t> bytes;
    const auto add = [&](int position) {
      const loopnest::Access& access = at(nest_.accesses, position);
      int64_t slice = std::max<int64_t>(1, elementBytes(access.dtype));
      for (const loopnest::Subscript& subscript : access.subscripts) {
        // Distinct values, at least: strides leave holes.
        int64_t values = 1;
        for (const loopnest::Term& term : subscript.terms)
          if (at(decided, term.loop)) values = std::max(values, at(extents, term.loop));
        slice = loopnest::saturatedProduct(slice, values);
      }
      int64_t& most = bytes[access.name];
      most = std::max(most, slice);
    };
    for (const int input : at(nest_.statements, s).inputs) add(input);
    add(at(nest_.statements, s).output);
    double all = 0;
    for (const auto& [name, each] : bytes) all += static_cast<double>(each);
    if (all > static_cast<double>(capacity) && tile.end - tile.begin == 1) return false;
  }
  return true;
}

size_t TilingSearch::select(size_t choices, std::mt19937_64& random) {
  const size_t here = path_.back();
  size_t chosen = 0;
  if (nodes_[here].next.size() < choices) {
    // Each choice once, in random order.
    std::vector<size_t> untried;
    for (size_t choice = 0; choice < choices; ++choice)
      if (!nodes_[here].next.contains(choice)) untried.push_back(choice);
    chosen = untried[random() % untried.size()];
    const size_t added = nodes_.size();
    nodes_.emplace_back();
    nodes_[here].next.emplace(chosen, added);
  } else {
    double highest = -1;
    for (const auto& [choice, node] : nodes_[here].next) {
      const auto visits = static_cast<double>(std::max<int64_t>(1, nodes_[node].visits));
      const double bound =
          nodes_[node].reward / visits +
          kExploration *
              std::sqrt(std::log(static_cast<double>(std::max<int64_t>(1, nodes_[here].visits)) + 1) / visits);
      if (bound <= highest) continue;
      highest = bound;
      chosen = choice;
    }
  }
  path_.push_back(nodes_[here].next.at(chosen));
  return chosen;
}

}  // namespace tessera::compiler::dataflow_search
