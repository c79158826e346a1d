#include "compiler/graph/slices/group_profit.h"

#include <algorithm>

namespace tessera::compiler {

v1::FusionProfit profitMessage(const std::string& pair, const fusion::Profit& profit) {
  v1::FusionProfit message;
  message.set_kind(pair);
  message.set_saved_bytes(profit.saved_bytes);
  message.set_repeated_flops(profit.repeated_flops);
  message.set_saved_launches(profit.saved_launches);
  message.set_profit_us(profit.seconds * 1e6);
  return message;
}

v1::FusionProfit profitOfOne(const fusion::RegionGraph& graph, const std::vector<int>& nodes,
                             const fusion::PeakMachine& machine) {
  std::string pair;
  for (const int node : nodes) {
    for (const fusion::GraphNode::Input& input : graph.nodes[node].inputs) {
      const int maker = graph.producerOf(input.tensor);
      if (maker >= 0 && std::ranges::find(nodes, maker) != nodes.end())
        pair = fusion::operatorPairText(graph, input.tensor, node);
    }
  }
  return profitMessage(pair, fusion::profitOf(graph, nodes, {nodes}, machine));
}

}  // namespace tessera::compiler
