#include "compiler/fusion/slice_inference.h"

#include <algorithm>

namespace tessera::compiler::fusion {
namespace {

Interval unite(const Interval& a, const Interval& b, int64_t extent) {
  if (a == b) return a;
  // With different slopes no part of bounded size contains both for every slice.
  if (a.dim < 0 || b.dim < 0 || a.dim != b.dim || a.scale != b.scale) return {-1, 0, 0, extent};
  const int64_t low = std::min(a.offset, b.offset), high = std::max(a.offset + a.size, b.offset + b.size);
  return {a.dim, a.scale, low, std::min(extent, high - low)};
}

}  // namespace

double SliceShapes::points(int tensor) const {
  double points = 1;
  for (const Interval& interval : needed[tensor]) points *= static_cast<double>(interval.size);
  return points;
}

double SliceShapes::added(int tensor, int dim, int64_t slice) const {
  double points = 1;
  for (const Interval& interval : needed[tensor])
    points *= static_cast<double>(interval.dim == dim && dim >= 0 ? std::min(interval.size, interval.scale * slice)
                                                                  : interval.size);
  return points;
}

bool SliceShapes::invariant(int tensor) const {
  return std::ranges::all_of(needed[tensor], [](const Interval& interval) { return interval.dim < 0; });
}

std::optional<SliceShapes> inferSlices(const RegionGraph& graph, const std::vector<int>& nodes,
                                       const std::vector<int64_t>& slice, int halo_dim) {
  // The result's slice: dimensions that are not cut are whole.
  SliceShapes shapes;
  shapes.needed.resize(graph.tensors.size());
  const int result = graph.nodes[nodes.back()].output;
  for (size_t d = 0; d < slice.size(); ++d) {
    const int64_t extent = graph.tensors[result].shape[d];
    shapes.needed[result].push_back(slice[d] >= extent ? Interval{-1, 0, 0, extent}
                                                       : Interval{static_cast<int>(d), 1, 0, slice[d]});
  }
  // From the last node backwards: `out` is complete when a node is reached, because its readers come later.
  for (size_t at = nodes.size(); at-- > 0;) {
    const GraphNode& node = graph.nodes[nodes[at]];
    std::vector<Interval> out = shapes.needed[node.output];
    if (out.empty()) return std::nullopt;
    // Along the halo_dim dimension the slice before has left the overlap, so the node computes only its end.
    for (Interval& part : out) {
      if (part.dim < 0 || part.dim != halo_dim) continue;
      const int64_t added = std::min(part.size, part.scale * slice[part.dim]);
      part.offset += part.size - added;
      part.size = added;
    }
    for (const GraphNode::Input& input : node.inputs) {
      std::vector<Interval>& needed = shapes.needed[input.tensor];
      const bool first = needed.empty();
      for (size_t d = 0; d < input.access.size(); ++d) {
        const DimAccess& access = input.access[d];
        const int64_t extent = graph.tensors[input.tensor].shape[d];
        Interval part{-1, 0, 0, extent};
        if (access.output_dim >= 0 && out[access.output_dim].dim >= 0) {
          const Interval& from = out[access.output_dim];
          // A window of the slice's points, or the whole dimension if that is not smaller.
          const int64_t size = (from.size - 1) * access.stride + access.window;
          if (size < extent)
            part = {from.dim, from.scale * access.stride, from.offset * access.stride - access.padding, size};
        }
        // Several readers need the union of their parts.
        if (first) {
          needed.push_back(part);
        } else {
          needed[d] = unite(needed[d], part, extent);
        }
      }
    }
  }
  return shapes;
}

}  // namespace tessera::compiler::fusion
