#include "compiler/fusion/profit.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::compiler::fusion {
namespace {

double bytesOf(const GraphTensor& tensor) {
  auto bytes = static_cast<double>(tensor.element_bytes);
  for (const int64_t extent : tensor.shape) bytes *= static_cast<double>(extent);
  return bytes;
}

double flopsOf(const RegionGraph& graph, int node) {
  const GraphTensor& made = graph.tensors[graph.nodes[node].output];
  return graph.nodes[node].flops_per_point * bytesOf(made) / static_cast<double>(made.element_bytes);
}

bool contains(const Kernel& kernel, int node) { return std::ranges::find(kernel, node) != kernel.end(); }

/// Whether the result of `node` must be in memory: for the caller, or for a reader that does not compute it itself.
bool isLeftBehind(const RegionGraph& graph, const std::vector<Kernel>& kernels, const std::set<int>& nodes, int node) {
  const int tensor = graph.nodes[node].output;
  if (graph.isOutput(tensor)) return true;
  return std::ranges::any_of(graph.consumersOf(tensor), [&](int reader) {
    return !nodes.contains(reader) || std::ranges::any_of(kernels, [&](const Kernel& kernel) {
      return contains(kernel, reader) && !contains(kernel, node);
    });
  });
}

/// Returns the bytes that the kernels transfer: each tensor that a kernel does not compute is read once per kernel, and
/// each needed result is written once, even if several kernels compute it.
double transferred(const RegionGraph& graph, const std::vector<Kernel>& kernels, const std::set<int>& nodes) {
  double bytes = 0;
  std::set<int> written;
  for (const Kernel& kernel : kernels) {
    std::set<int> brought;
    for (const int node : kernel) {
      for (const GraphNode::Input& input : graph.nodes[node].inputs)
        if (!contains(kernel, graph.producerOf(input.tensor))) brought.insert(input.tensor);
      if (isLeftBehind(graph, kernels, nodes, node)) written.insert(graph.nodes[node].output);
    }
    for (const int tensor : brought) bytes += bytesOf(graph.tensors[tensor]);
  }
  for (const int tensor : written) bytes += bytesOf(graph.tensors[tensor]);
  return bytes;
}

const char* countOf(const GraphNode& node) { return node.inputs.size() > 1 ? "Many" : "One"; }

}  // namespace

PeakMachine peakOf(const Chip& chip) {
  return {.bytes_per_second = chip.bytesPerSecond(chip.levels().back()),
          .flops_per_second = chip.operationsPerSecond() * chip.cores(),
          .launch_seconds = chip.seconds(chip.costParameters().overheads().phase_cycles())};
}

Profit profitOf(const RegionGraph& graph, const std::vector<int>& nodes, const std::vector<Kernel>& kernels,
                const PeakMachine& machine, const std::vector<double>& repetitions) {
  // The reference: one kernel per node.
  const std::set<int> all(nodes.begin(), nodes.end());
  std::vector<Kernel> apart;
  double flops_apart = 0, flops = 0;
  for (const int node : all) {
    apart.push_back({node});
    flops_apart += flopsOf(graph, node);
  }
  for (const Kernel& kernel : kernels)
    for (const int node : kernel) flops += flopsOf(graph, node) * (repetitions.empty() ? 1 : repetitions[node]);
  Profit profit;
  profit.saved_bytes = transferred(graph, apart, all) - transferred(graph, kernels, all);
  profit.repeated_flops = flops - flops_apart;
  profit.saved_launches = static_cast<int>(apart.size()) - static_cast<int>(kernels.size());
  // Equation 4.10.
  profit.seconds = profit.saved_bytes / machine.bytes_per_second - profit.repeated_flops / machine.flops_per_second +
                   profit.saved_launches * machine.launch_seconds;
  return profit;
}

std::string operatorPairText(const RegionGraph& graph, int tensor, int reader) {
  return absl::StrCat(countOf(graph.nodes[graph.producerOf(tensor)]), "+", countOf(graph.nodes[reader]));
}

std::string describe(const std::string& pair, const Profit& profit) {
  return absl::StrFormat("%s would %s %.1f us: %.3f MB %s to move, %d %s less, %.2f MFLOP more to compute", pair,
                         profit.seconds < 0 ? "lose at least" : "gain at most", std::abs(profit.seconds) * 1e6,
                         std::abs(profit.saved_bytes) / 1e6, profit.saved_bytes < 0 ? "more" : "less",
                         profit.saved_launches, profit.saved_launches == 1 ? "launch" : "launches",
                         profit.repeated_flops / 1e6);
}

}  // namespace tessera::compiler::fusion
