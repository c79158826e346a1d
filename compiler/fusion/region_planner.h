#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/fusion/slice_inference.h"
#include "compiler/target/chip.h"

/// Tiling loop fusion: which parts of a graph could run slice by slice in a near memory, and how finely. Which of them
/// do is chosen beside other fusions (selection.h).
namespace tessera::compiler::fusion {

/// Where regions may be: positions of levels of a chip. Seconds are those of one core with its share of the slices.
struct RegionLevels {
  std::vector<size_t> near;  ///< of slices, nearest first
  size_t far = 0;            ///< of whole tensors; slices' runs are whole lines of it
};

/// The loop of one region. A region of one node with count 1 runs from the farthest memory, as without tiling.
struct Region {
  std::vector<int> nodes;      ///< ascending positions in RegionGraph.nodes
  int level = -1;              ///< position in the chip's levels its slices live in; -1: not tiled
  std::vector<int64_t> slice;  ///< per dimension of its result; the extent where it is not cut
  int64_t slices = 1;
  double seconds = 0;        ///< where runs differ in size: as much longer as they compute too much, on average
  double peak_bytes = 0;     ///< of one slice, with what stays between slices
  double traffic_bytes = 0;  ///< to and from the farthest memory, all slices
  int following = -1;        ///< dimension along which slices follow each other in time and keep their halos
  int64_t part = 1;          ///< slices along it that do
  /// What slices take that do it the other way: compute halos again, or keep them; infinite: no windows, or none fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  double recomputed_flops = 0;   ///< by overlaps of neighbouring slices or parts
  bool weights_resident = true;  ///< read once, not once per slice
};

class RegionPlans;

struct RegionLimits {
  int nodes = 4;  ///< of one region
  int sets = 64;  ///< looked at for one last node, the smaller ones first
};

/// The best loop for these nodes, or nothing when they can be no region: not connected, several results, a global
/// reduction among several nodes, nothing that fits.
std::optional<Region> planRegion(const RegionGraph& graph, const std::vector<int>& nodes, const Chip& chip,
                                 const RegionLevels& levels);

/// Every region of two nodes and more of which only the last node's value is read outside, in the order of the last
/// nodes, the smaller ones first. `graph` is valid.
std::vector<Region> possibleRegions(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels,
                                    const RegionLimits& limits = {});
/// The same for the graph of `plans`.
std::vector<Region> possibleRegions(RegionPlans& plans, const RegionLimits& limits = {});

}  // namespace tessera::compiler::fusion
