#include "compiler/fusion/region_planner.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::compiler::fusion {
namespace {

using NodeSet = std::vector<bool>;

class Programme {
 public:
  Programme(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels, const RegionLimits& limits)
      : graph_(graph), chip_(chip), levels_(levels), limits_(limits), needs_(graph.nodes.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      for (const GraphNode::Input& input : graph.nodes[n].inputs)
        if (const int producer = graph.producerOf(input.tensor); producer >= 0) needs_[n].push_back(producer);
  }

  /// False when there are too many cuts.
  bool overAllCuts(RegionPlan& plan) {
    // By size: every step goes from a smaller set to a larger one.
    std::vector<std::map<NodeSet, State>> states(graph_.nodes.size() + 1);
    states[0][NodeSet(graph_.nodes.size(), false)] = {};
    int count = 0;
    for (size_t size = 0; size < graph_.nodes.size(); ++size)
      for (const auto& [done, state] : states[size]) {
        if (++count > limits_.cuts) return false;
        for (const std::vector<int>& nodes : regionsFrom(done)) {
          const Region* region = regionOf(nodes);
          if (!region) continue;
          NodeSet next = done;
          for (int n : nodes) next[n] = true;
          State& reached = states[size + nodes.size()][next];
          const double seconds = state.seconds + region->seconds;
          if (seconds < reached.seconds || !reached.last) reached = {seconds, region, done};
        }
      }
    NodeSet at(graph_.nodes.size(), true);
    const State* state = &states.back().at(at);
    plan.seconds = state->seconds;
    for (size_t size = graph_.nodes.size(); size > 0;) {
      plan.regions.push_back(*state->last);
      size -= state->last->nodes.size();
      state = &states[size].at(state->before);
    }
    std::ranges::reverse(plan.regions);
    return true;
  }

  /// Regions are runs of the given node order.
  void alongOrder(RegionPlan& plan) {
    const int count = static_cast<int>(graph_.nodes.size());
    std::vector<State> best(count + 1);
    for (int end = 1; end <= count; ++end) {
      best[end].seconds = INFINITY;
      for (int begin = std::max(0, end - limits_.nodes); begin < end; ++begin) {
        std::vector<int> nodes;
        for (int n = begin; n < end; ++n) nodes.push_back(n);
        const Region* region = regionOf(nodes);
        if (region && best[begin].seconds + region->seconds < best[end].seconds)
          best[end] = {best[begin].seconds + region->seconds, region, {}};
      }
    }
    plan.seconds = best[count].seconds;
    for (int end = count; end > 0; end -= static_cast<int>(best[end].last->nodes.size()))
      plan.regions.push_back(*best[end].last);
    std::ranges::reverse(plan.regions);
  }

 private:
  struct State {
    double seconds = 0;
    const Region* last = nullptr;
    NodeSet before;
  };

  const Region* regionOf(const std::vector<int>& nodes) {
    auto [at, fresh] = regions_.try_emplace(nodes);
    if (fresh) at->second = planRegion(graph_, nodes, chip_, levels_);
    return at->second ? &*at->second : nullptr;
  }

  /// Sets of nodes that can run next: everything they need is done or among them.
  std::vector<std::vector<int>> regionsFrom(const NodeSet& done) const {
    std::set<std::vector<int>> found;
    std::deque<std::vector<int>> grow = {{}};
    while (!grow.empty() && static_cast<int>(found.size()) < limits_.regions) {
      std::vector<int> nodes = std::move(grow.front());
      grow.pop_front();
      // A global reduction is a region of its own.
      if (nodes.size() == 1 && graph_.nodes[nodes[0]].kind == GraphNode::Kind::kGlobalReduction) continue;
      if (static_cast<int>(nodes.size()) >= limits_.nodes) continue;
      for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
        if (done[n] || std::ranges::count(nodes, n) > 0) continue;
        if (!nodes.empty() && graph_.nodes[n].kind == GraphNode::Kind::kGlobalReduction) continue;
        if (!std::ranges::all_of(needs_[n],
                                 [&](int need) { return done[need] || std::ranges::count(nodes, need) > 0; }))
          continue;
        std::vector<int> larger = nodes;
        larger.insert(std::ranges::upper_bound(larger, n), n);
        if (found.insert(larger).second) grow.push_back(std::move(larger));
      }
    }
    return {found.begin(), found.end()};
  }

  const RegionGraph& graph_;
  const Chip& chip_;
  const RegionLevels& levels_;
  const RegionLimits& limits_;
  std::vector<std::vector<int>> needs_;
  std::map<std::vector<int>, std::optional<Region>> regions_;
};

}  // namespace

absl::StatusOr<RegionPlan> planRegions(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels,
                                       const RegionLimits& limits) {
  if (auto status = validate(graph); !status.ok()) return status;
  if (levels.near.empty() || levels.far >= chip.levels().size() || levels.near.back() >= levels.far)
    return absl::InvalidArgumentError("regions need a level of memory for slices and a farther one");
  RegionPlan plan;
  Programme programme(graph, chip, levels, limits);
  if (!programme.overAllCuts(plan)) {
    plan = {};
    plan.exact = false;
    programme.alongOrder(plan);
  }
  // What each node costs alone from the farthest memory: one level is left to it.
  const RegionLevels far{{}, levels.far};
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    plan.untiled_seconds += planRegion(graph, {n}, chip, far)->seconds;
  return plan;
}

std::string describe(const RegionGraph& graph, const Chip& chip, const RegionPlan& plan) {
  std::string text;
  for (const Region& region : plan.regions) {
    const std::string names =
        absl::StrJoin(region.nodes, "+", [&](std::string* out, int n) { out->append(graph.nodes[n].name); });
    if (region.level < 0) {
      absl::StrAppend(&text, names, ": whole, ", region.seconds * 1e3, " ms\n");
      continue;
    }
    absl::StrAppend(&text, names, ": ", region.slices, " slices [", absl::StrJoin(region.slice, ","), "] in ",
                    chip.level(region.level).name, ", peak ", region.peak_bytes / 1e6, " MB, traffic ",
                    region.traffic_bytes / 1e6, " MB, ", region.seconds * 1e3, " ms\n");
  }
  absl::StrAppend(&text, "sum ", plan.seconds * 1e3, " ms, not tiled ", plan.untiled_seconds * 1e3, " ms\n");
  return text;
}

}  // namespace tessera::compiler::fusion
