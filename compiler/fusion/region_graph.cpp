#include "compiler/fusion/region_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::fusion {

int RegionGraph::producerOf(int tensor) const {
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].output == tensor) return static_cast<int>(n);
  return -1;
}

std::vector<int> RegionGraph::consumersOf(int tensor) const {
  std::vector<int> consumers;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (std::ranges::any_of(nodes[n].inputs, [&](const auto& input) { return input.tensor == tensor; }))
      consumers.push_back(static_cast<int>(n));
  return consumers;
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

int RegionGraphBuilder::input(const std::string& name, std::vector<int64_t> shape, bool constant) {
  graph_.tensors.push_back({name, std::move(shape), 4, constant});
  return static_cast<int>(graph_.tensors.size()) - 1;
}

int RegionGraphBuilder::convolution(const std::string& name, int from, int64_t channels, int64_t window, int64_t stride,
                                    int64_t padding) {
  const std::vector<int64_t> in = graph_.tensors[from].shape;
  const int weights = input(name + ".weight", {channels, in[1], window, window}, true);
  const int output = input(name, {in[0], channels, (in[2] + 2 * padding - window) / stride + 1,
                                  (in[3] + 2 * padding - window) / stride + 1});
  const DimAccess whole;
  graph_.nodes.push_back({name,
                          GraphNode::Kind::kLocal,
                          {{from, {{0}, whole, {2, stride, window, padding}, {3, stride, window, padding}}},
                           {weights, {{1}, whole, whole, whole}}},
                          output,
                          2.0 * static_cast<double>(in[1] * window * window)});
  return output;
}

int RegionGraphBuilder::elementwise(const std::string& name, std::vector<int> inputs, double flops) {
  const std::vector<int64_t> shape = graph_.tensors[inputs[0]].shape;
  GraphNode node{name, GraphNode::Kind::kLocal, {}, 0, flops};
  for (int tensor : inputs) {
    GraphNode::Input input{tensor, {}};
    for (size_t d = 0; d < shape.size(); ++d) input.access.push_back({static_cast<int>(d)});
    node.inputs.push_back(std::move(input));
  }
  node.output = input(name, shape);
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().output;
}

int RegionGraphBuilder::globalAveragePool(const std::string& name, int from) {
  const std::vector<int64_t> in = graph_.tensors[from].shape;
  const int output = input(name, {in[0], in[1], 1, 1});
  graph_.nodes.push_back({name,
                          GraphNode::Kind::kGlobalReduction,
                          {{from, {{0}, {1}, {}, {}}}},
                          output,
                          static_cast<double>(in[2] * in[3])});
  return output;
}

RegionGraph RegionGraphBuilder::finish(std::vector<int> outputs) {
  graph_.outputs = std::move(outputs);
  return std::move(graph_);
}

}  // namespace tessera::compiler::fusion
