#pragma once

#include <optional>
#include <vector>

#include "compiler/fusion/region_graph.h"

namespace tessera::compiler::fusion {

/// The part of one dimension that slice i of a region needs: it starts at scale * i * slice + offset and has `size`
/// points, clipped to the dimension's extent. `dim` is the dimension of the region's result along which slices are
/// counted and `slice` is the slice size along it; -1 if every slice needs the whole dimension.
struct Interval {
  int dim = -1;
  int64_t scale = 0, offset = 0, size = 1;
  bool operator==(const Interval&) const = default;
};

/// The parts of all tensors of a region that a slice of its result needs.
struct SliceShapes {
  std::vector<std::vector<Interval>> needed;  ///< per tensor of the graph; empty: not touched

  /// Returns the elements of the needed part.
  double points(int tensor) const;
  /// Returns the number of elements of the needed part that the slice before it along `dim` does not have; `slice` is
  /// the slice size. A dimension that does not depend on `dim` counts in full, so a tensor without `dim` counts as new
  /// in every slice.
  double added(int tensor, int dim, int64_t slice) const;
  /// Whether all slices need the same part.
  bool invariant(int tensor) const;
};

/// Backward shape inference from the result of the last of `nodes` (ascending positions) to all tensors it depends on.
/// `slice` is the size per dimension of that result. Windows widen the needed part (halo), clipped to the extent; two
/// consumers need the union. Returns nothing if a node of the region does not feed its result. `halo_dim` is the
/// dimension along which halos are kept: a slice finds the elements that it shares with the slice before it, and each
/// node computes only the new ones. -1: halos are recomputed.
std::optional<SliceShapes> inferSlices(const RegionGraph& graph, const std::vector<int>& nodes,
                                       const std::vector<int64_t>& slice, int halo_dim = -1);

}  // namespace tessera::compiler::fusion
