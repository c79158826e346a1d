#pragma once

#include <optional>
#include <vector>

#include "compiler/fusion/region_graph.h"

namespace tessera::compiler::fusion {

/// Part of one dimension that slice number i of a region needs: [scale * i * slice + offset, ... + size), clipped to
/// the extent. dim is the dimension of the region's result that is sliced, -1 where all of it is needed.
struct Interval {
  int dim = -1;
  int64_t scale = 0, offset = 0, size = 1;
  bool operator==(const Interval&) const = default;
};

/// What a slice of the result of a region needs of every tensor the region touches.
struct SliceShapes {
  std::vector<std::vector<Interval>> needed;  ///< per tensor of the graph; empty: not touched

  /// Elements of the needed part.
  double points(int tensor) const;
  /// Elements of the needed part that a slice before along `dim` has not; `slice`: its size.
  double added(int tensor, int dim, int64_t slice) const;
  /// Whether all slices need the same part.
  bool invariant(int tensor) const;
};

/// Backward shape inference: from the result of the last of `nodes` (ascending positions) to everything it needs.
/// `slice` is the size per dimension of that result. Windows widen what is needed (halo), clipped to the extent;
/// two consumers need the union. Nothing when a node of the region does not feed its result.
/// `following`: the dimension along which the slice before has left what both need; each node computes what is new
/// only. -1: none.
std::optional<SliceShapes> inferSlices(const RegionGraph& graph, const std::vector<int>& nodes,
                                       const std::vector<int64_t>& slice, int following = -1);

}  // namespace tessera::compiler::fusion
