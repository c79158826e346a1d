#include "compiler/fusion/region_planner.h"

#include <algorithm>
#include <deque>
#include <set>

#include "compiler/fusion/region_plans.h"

namespace tessera::compiler::fusion {
namespace {

bool contains(const std::vector<int>& nodes, int node) { return std::ranges::find(nodes, node) != nodes.end(); }

class NodeSets {
 public:
  NodeSets(const RegionGraph& graph, int max_nodes, size_t max_sets)
      : graph_(graph),
        max_nodes_(max_nodes),
        max_sets_(max_sets),
        producer_(graph.tensors.size(), -1),
        readers_(graph.tensors.size()),
        is_output_(graph.tensors.size(), false) {
    for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
      producer_[graph.nodes[node].output] = node;
      for (const GraphNode::Input& input : graph.nodes[node].inputs) readers_[input.tensor].push_back(node);
    }
    for (const int tensor : graph.outputs) is_output_[tensor] = true;
  }

  /// Returns sets of two or more nodes that end with `last`; each further node feeds one already in the set.
  std::vector<std::vector<int>> endingAt(int last) const {
    std::vector<std::vector<int>> sets;
    if (graph_.nodes[last].kind == GraphNode::Kind::kGlobalReduction) return sets;
    std::set<std::vector<int>> found;
    std::deque<std::vector<int>> grow = {{last}};
    while (!grow.empty()) {
      const std::vector<int> nodes = std::move(grow.front());
      grow.pop_front();
      if (static_cast<int>(nodes.size()) >= max_nodes_) continue;
      for (const int reader : nodes) {
        for (const GraphNode::Input& input : graph_.nodes[reader].inputs) {
          const int producer = producer_[input.tensor];
          if (producer < 0 || contains(nodes, producer) || !isInner(producer, nodes)) continue;
          std::vector<int> larger = nodes;
          larger.insert(std::ranges::upper_bound(larger, producer), producer);
          if (sets.size() >= max_sets_) return sets;
          if (!found.insert(larger).second) continue;
          sets.push_back(larger);
          grow.push_back(std::move(larger));
        }
      }
    }
    return sets;
  }

 private:
  bool isInner(int node, const std::vector<int>& nodes) const {
    const int made = graph_.nodes[node].output;
    return graph_.nodes[node].kind == GraphNode::Kind::kLocal && !is_output_[made] &&
           std::ranges::all_of(readers_[made], [&](int reader) { return contains(nodes, reader); });
  }

  const RegionGraph& graph_;
  int max_nodes_;
  size_t max_sets_;
  std::vector<int> producer_;              // by tensor
  std::vector<std::vector<int>> readers_;  // by tensor
  std::vector<bool> is_output_;            // by tensor
};

}  // namespace

std::vector<Region> possibleRegions(RegionPlans& plans, const RegionLimits& limits) {
  const RegionGraph& graph = plans.graph();
  const NodeSets sets(graph, limits.nodes, static_cast<size_t>(limits.sets));
  std::vector<Region> regions;
  for (int last = 0; last < static_cast<int>(graph.nodes.size()); ++last) {
    for (const std::vector<int>& nodes : sets.endingAt(last))
      if (auto region = plans.of(nodes)) regions.push_back(*std::move(region));
  }
  return regions;
}

std::vector<Region> possibleRegions(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels,
                                    const RegionLimits& limits) {
  RegionPlans plans(graph, chip, levels);
  return possibleRegions(plans, limits);
}

}  // namespace tessera::compiler::fusion
