#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/target/chip.h"

/// What running operators as one is worth, whatever they compute (FlexTensor; thesis, 4.6.2 and figure 4.5). Operators
/// are nodes of a RegionGraph, told apart by how many tensors they read: One or Many, weights among them.
namespace tessera::compiler::fusion {

/// The chip at its best: equation 4.10 asks for what a fusion could gain at most, to drop what loses even so.
struct PeakMachine {
  double bytes_per_second = 1;  ///< between the farthest memory and the cores: P_d
  double flops_per_second = 1;  ///< P_c
  double launch_seconds = 0;    ///< L_start
};
PeakMachine peakOf(const Chip& chip);

/// Nodes that run as one. A node may be part of several, which compute it each for itself.
using Kernel = std::vector<int>;

struct Profit {
  double saved_bytes = 0;     ///< less to transfer; below 0: more
  double repeated_flops = 0;  ///< more to compute
  int saved_launches = 0;
  double seconds = 0;  ///< equation 4.10: below 0 it loses whatever code is made of it
};

/// From every node a kernel of its own to `kernels`, which hold each of `nodes` at least once. What lies between is
/// transferred once by each kernel that reads it and once by the one that writes it; a kernel writes what others read
/// that do not compute it themselves, and what the graph has to leave behind. `times`: how often each point of a node
/// is computed where a kernel reads it, by node; empty: once.
Profit profitOf(const RegionGraph& graph, const std::vector<int>& nodes, const std::vector<Kernel>& kernels,
                const PeakMachine& machine, const std::vector<double>& times = {});

/// "One+Many": the node that writes `tensor` has one input, `reader` several.
std::string pairOf(const RegionGraph& graph, int tensor, int reader);

/// "One+Many would gain at most 12.5 us: 0.13 MB less to move, 1 launch less, 0.02 MFLOP more to compute".
std::string describe(const std::string& pair, const Profit& profit);

}  // namespace tessera::compiler::fusion
