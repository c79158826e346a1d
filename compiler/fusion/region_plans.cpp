#include "compiler/fusion/region_plans.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tessera::compiler::fusion {
namespace {

/// Returns all numbers of a graph without names. Lists begin with their lengths, so that different graphs have
/// different keys.
std::vector<int64_t> keyOf(const RegionGraph& graph) {
  std::vector<int64_t> key;
  auto append = [&](const auto& list) {
    key.push_back(static_cast<int64_t>(list.size()));
    key.insert(key.end(), list.begin(), list.end());
  };
  for (const GraphNode& node : graph.nodes) {
    key.insert(key.end(), {static_cast<int64_t>(node.kind), node.output, std::bit_cast<int64_t>(node.flops_per_point),
                           static_cast<int64_t>(node.inputs.size())});
    for (const GraphNode::Input& input : node.inputs) {
      key.insert(key.end(), {input.tensor, static_cast<int64_t>(input.access.size())});
      for (const DimAccess& access : input.access)
        key.insert(key.end(), {access.output_dim, access.stride, access.window, access.padding});
    }
  }
  for (const GraphTensor& tensor : graph.tensors) {
    key.insert(key.end(), {tensor.element_bytes, static_cast<int64_t>(tensor.constant)});
    append(tensor.shape);
    append(tensor.min_shape);
  }
  append(graph.outputs);
  return key;
}

}  // namespace

RegionPlans::RegionPlans(const RegionGraph& graph, const Chip& chip, RegionLevels levels)
    : graph_(graph), chip_(chip), levels_(std::move(levels)) {}

/// Extracts the nodes and the tensors that they touch, without names. Values read by nodes outside become outputs.
/// Tensors keep their order, because it is the order of summation and prices must be equal to the last bit.
RegionGraph RegionPlans::partOf(const std::vector<int>& nodes) const {
  std::vector<int> touched;
  for (const int node : nodes) {
    touched.push_back(graph_.nodes[node].output);
    for (const GraphNode::Input& input : graph_.nodes[node].inputs) touched.push_back(input.tensor);
  }
  std::ranges::sort(touched);
  touched.erase(std::ranges::unique(touched).begin(), touched.end());
  auto local = [&](int tensor) {
    return static_cast<int>(std::ranges::lower_bound(touched, tensor) - touched.begin());
  };

  RegionGraph part;
  for (const int tensor : touched) {
    const GraphTensor& whole = graph_.tensors[tensor];
    part.tensors.push_back({{}, whole.shape, whole.element_bytes, whole.constant, whole.min_shape});
  }
  for (const int at : nodes) {
    const GraphNode& whole = graph_.nodes[at];
    GraphNode& node = part.nodes.emplace_back();
    node.kind = whole.kind;
    node.flops_per_point = whole.flops_per_point;
    node.output = local(whole.output);
    for (const GraphNode::Input& input : whole.inputs) node.inputs.push_back({local(input.tensor), input.access});
    const bool leaves =
        graph_.isOutput(whole.output) || std::ranges::any_of(graph_.consumersOf(whole.output), [&](int reader) {
          return std::ranges::find(nodes, reader) == nodes.end();
        });
    if (leaves) part.outputs.push_back(node.output);
  }
  return part;
}

std::optional<Region> RegionPlans::of(const std::vector<int>& nodes) {
  const RegionGraph part = partOf(nodes);
  const auto [known, fresh] = known_.try_emplace(keyOf(part));
  if (fresh) {
    std::vector<int> all(nodes.size());
    std::iota(all.begin(), all.end(), 0);
    known->second = planRegion(part, all, chip_, levels_);
  }
  std::optional<Region> region = known->second;
  if (region) region->nodes = nodes;
  return region;
}

}  // namespace tessera::compiler::fusion
