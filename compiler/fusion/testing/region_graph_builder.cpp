#include "compiler/fusion/testing/region_graph_builder.h"

namespace tessera::compiler::fusion {

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
