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

/// The loop of one region. Level -1, possible for a single node only, means that the node runs from the farthest
/// memory, without slices.
struct Region {
  std::vector<int> nodes;      ///< ascending positions in RegionGraph.nodes
  int level = -1;              ///< position of the level that holds its slices; -1: not tiled
  std::vector<int64_t> slice;  ///< per dimension of its result; the extent if it is not cut
  int64_t slices = 1;
  double seconds = 0;  ///< if the sizes of runs vary: includes the work on elements that an average run does not need
  double peak_bytes = 0;     ///< of one slice, including data kept between slices
  double traffic_bytes = 0;  ///< to and from the farthest memory, all slices
  /// Dimension along which a slice reuses the halo of the slice before it; -1: halos are recomputed.
  int halo_dim = -1;
  int64_t sequence_length = 1;  ///< slices along `halo_dim` that run one after another on one core
  /// Seconds of the best plan of the other policy: recomputing halos if this plan keeps them, keeping them if it
  /// recomputes. Infinite if no windows overlap, or if that plan does not fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  double recomputed_flops = 0;   ///< spent on overlaps of neighbouring slices or sequences
  bool weights_resident = true;  ///< constants are read once, not once per slice
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
