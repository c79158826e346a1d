#include "compiler/fusion/region_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::fusion {

void RegionGraph::index() {
  producers_.assign(tensors.size(), -1);
  consumers_.assign(tensors.size(), {});
  is_output_.assign(tensors.size(), false);
  for (const int tensor : outputs) is_output_[tensor] = true;
  for (int n = static_cast<int>(nodes.size()) - 1; n >= 0; --n) producers_[nodes[n].output] = n;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const GraphNode::Input& input : nodes[n].inputs) {
      std::vector<int>& consumers = consumers_[input.tensor];
      if (consumers.empty() || consumers.back() != static_cast<int>(n)) consumers.push_back(static_cast<int>(n));
    }
  }
}

int RegionGraph::producerOf(int tensor) const {
  if (!producers_.empty()) return producers_[tensor];
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].output == tensor) return static_cast<int>(n);
  return -1;
}

std::vector<int> RegionGraph::consumersOf(int tensor) const {
  if (!consumers_.empty()) return consumers_[tensor];
  std::vector<int> consumers;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (std::ranges::any_of(nodes[n].inputs, [&](const auto& input) { return input.tensor == tensor; }))
      consumers.push_back(static_cast<int>(n));
  return consumers;
}

bool RegionGraph::isOutput(int tensor) const {
  if (!is_output_.empty()) return is_output_[tensor];
  return std::ranges::find(outputs, tensor) != outputs.end();
}

absl::Status validate(const RegionGraph& graph) {
  const int tensors = static_cast<int>(graph.tensors.size());
  std::vector<bool> written(graph.tensors.size(), false), made(graph.tensors.size(), false);
  for (const GraphNode& node : graph.nodes)
    if (node.output >= 0 && node.output < tensors) made[node.output] = true;
  for (const GraphNode& node : graph.nodes) {
    auto fault = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "': ", what...));
    };
    if (node.output < 0 || node.output >= tensors) return fault("writes an unknown tensor ", node.output);
    if (written[node.output]) return fault("writes '", graph.tensors[node.output].name, "', which another node wrote");
    for (const GraphNode::Input& input : node.inputs) {
      if (input.tensor < 0 || input.tensor >= tensors) return fault("reads an unknown tensor ", input.tensor);
      const GraphTensor& tensor = graph.tensors[input.tensor];
      if (made[input.tensor] && !written[input.tensor]) return fault("reads '", tensor.name, "' before it is written");
      if (input.access.size() != tensor.shape.size())
        return fault("has ", input.access.size(), " subscripts for '", tensor.name, "' of rank ", tensor.shape.size());
      for (const DimAccess& access : input.access)
        if (access.output_dim >= static_cast<int>(graph.tensors[node.output].shape.size()) || access.stride < 1 ||
            access.window < 1)
          return fault("has a subscript of '", tensor.name, "' that no output point explains");
    }
    written[node.output] = true;
  }
  for (const GraphTensor& tensor : graph.tensors)
    for (int64_t extent : tensor.shape)
      if (extent < 1) return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' has extent ", extent));
  return absl::OkStatus();
}

}  // namespace tessera::compiler::fusion
