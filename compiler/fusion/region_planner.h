#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/fusion/slice_inference.h"
#include "compiler/target/chip.h"

/// Tiling loop fusion: finds parts of a graph that could run slice by slice in a near memory, with slice sizes. The
/// selection among fusions is elsewhere (selection.h).
namespace tessera::compiler::fusion {

/// Memory levels of regions, as positions of levels of a chip. Seconds are those of one core with its share of the
/// slices.
struct RegionLevels {
  std::vector<size_t> near;  ///< of slices, nearest first
  size_t far = 0;            ///< of whole tensors; contiguous runs of slices are whole lines of this level
};

/// The loop of one region. A region of one node with count 1 runs from the farthest memory, without tiling.
struct Region {
  std::vector<int> nodes;      ///< ascending positions in RegionGraph.nodes
  int level = -1;              ///< position of the level that holds its slices; -1: not tiled
  std::vector<int64_t> slice;  ///< per dimension of its result; the extent if it is not cut
  int64_t slices = 1;
  double seconds = 0;        ///< for runs of different sizes: including the average unneeded work
  double peak_bytes = 0;     ///< of one slice, including data kept between slices
  double traffic_bytes = 0;  ///< to and from the farthest memory, all slices
  int following = -1;        ///< dimension along which successive slices keep their halos
  int64_t part = 1;          ///< number of slices along it that do
  /// Seconds of the alternative: recompute halos, or keep them; infinite: there are no windows, or it does not fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  double recomputed_flops = 0;   ///< for overlaps of neighbouring slices or parts
  bool weights_resident = true;  ///< read once, not once per slice
};

class RegionPlans;

struct RegionLimits {
  int nodes = 4;  ///< of one region
  int sets = 64;  ///< examined for one last node, smaller ones first
};

/// Returns the best loop for these nodes. Nothing if they cannot be a region: not connected, several results, a global
/// reduction among several nodes, nothing fits.
std::optional<Region> planRegion(const RegionGraph& graph, const std::vector<int>& nodes, const Chip& chip,
                                 const RegionLevels& levels);

/// Returns every region of two or more nodes with a single result that is read outside, by last node, smaller ones
/// first. `graph` must be valid.
std::vector<Region> possibleRegions(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels,
                                    const RegionLimits& limits = {});
/// Like possibleRegions() above, for the graph of `plans`.
std::vector<Region> possibleRegions(RegionPlans& plans, const RegionLimits& limits = {});

}  // namespace tessera::compiler::fusion
