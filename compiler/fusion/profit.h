#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/target/chip.h"

/// The profit of running operators as one kernel, for any operators (FlexTensor; thesis, 4.6.2 and figure 4.5).
/// Operators are nodes of a RegionGraph, classified by the number of tensors that they read, weights included: One or
/// Many.
namespace tessera::compiler::fusion {

/// The chip at its peak. Equation 4.10 bounds the gain of a fusion from above, to drop fusions that lose even so.
struct PeakMachine {
  double bytes_per_second = 1;  ///< between the farthest memory and the cores: P_d
  double flops_per_second = 1;  ///< P_c
  double launch_seconds = 0;    ///< L_start
};
PeakMachine peakOf(const Chip& chip);

/// Nodes that run as one. A node in several kernels is computed in each.
using Kernel = std::vector<int>;

struct Profit {
  double saved_bytes = 0;     ///< transfer saved; negative: added
  double repeated_flops = 0;  ///< work added
  int saved_launches = 0;
  double seconds = 0;  ///< equation 4.10; negative: a loss for any implementation
};

/// Compares one kernel per node with `kernels`, which contain each of `nodes` at least once. An intermediate is
/// transferred once by each kernel that reads it and once by the kernel that writes it. A kernel writes a value if
/// another kernel reads it without computing it, or if it is an output of the graph. `repetitions`: how often a kernel
/// computes each point of a node, by node; empty: once.
Profit profitOf(const RegionGraph& graph, const std::vector<int>& nodes, const std::vector<Kernel>& kernels,
                const PeakMachine& machine, const std::vector<double>& repetitions = {});

/// Returns "One+Many" if the node that writes `tensor` has one input and `reader` several.
std::string operatorPairText(const RegionGraph& graph, int tensor, int reader);

/// Returns "One+Many would gain at most 12.5 us: 0.13 MB less to move, 1 launch less, 0.02 MFLOP more to compute".
std::string describe(const std::string& pair, const Profit& profit);

}  // namespace tessera::compiler::fusion
