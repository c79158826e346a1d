#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/cost/load_balance.h"
#include "compiler/cost/padding_overhead.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/region_planner.h"
#include "compiler/fusion/slice_plan.h"

namespace tessera::compiler::fusion {
namespace {

bool contains(const std::vector<int>& list, int value) { return std::ranges::count(list, value) > 0; }

class RegionCost {
 public:
  RegionCost(const RegionGraph& graph, const std::vector<int>& nodes, const Chip& chip, size_t far)
      : graph_(graph),
        nodes_(nodes),
        chip_(chip),
        far_(chip.level(far)),
        exposed_(chip.costParameters().memory().exposed_share()),
        nest_seconds_(chip.seconds(chip.costParameters().overheads().nest_cycles())) {
    for (int n : nodes)
      for (const GraphNode::Input& input : graph.nodes[n].inputs) touched_.insert(input.tensor);
    for (int n : nodes) touched_.insert(graph.nodes[n].output);
    for (int tensor : touched_) {
      inside_[tensor] = contains(nodes, graph.producerOf(tensor));
      if (!inside_[tensor]) continue;
      bool leaves = contains(graph.outputs, tensor);
      for (int consumer : graph.consumersOf(tensor)) leaves |= !contains(nodes, consumer);
      if (leaves) results_.push_back(tensor);
    }
  }

  /// Whether the region is connected and its last node is the only one without a reader inside.
  bool shaped() const {
    if (nodes_.size() > 1)
      for (int n : nodes_)
        if (graph_.nodes[n].kind == GraphNode::Kind::kGlobalReduction) return false;
    for (int n : nodes_) {
      if (n == nodes_.back()) continue;
      const std::vector<int> consumers = graph_.consumersOf(graph_.nodes[n].output);
      if (std::ranges::none_of(consumers, [&](int c) { return contains(nodes_, c); })) return false;
    }
    return true;
  }

  /// Whether a node reads another one's result through overlapping windows.
  bool slides() const {
    return std::ranges::any_of(nodes_, [&](int n) {
      return std::ranges::any_of(graph_.nodes[n].inputs, [&](const GraphNode::Input& input) {
        return inside_.at(input.tensor) &&
               std::ranges::any_of(input.access, [](const DimAccess& access) { return access.window > access.stride; });
      });
    });
  }

  Region untiled() const {
    const GraphNode& node = graph_.nodes[nodes_[0]];
    Region region{nodes_, -1, graph_.tensors[node.output].shape};
    double bytes = bytesOf(node.output);
    std::set<int> read;
    for (const GraphNode::Input& input : node.inputs)
      if (read.insert(input.tensor).second) bytes += bytesOf(input.tensor);
    region.traffic_bytes = bytes;
    region.peak_bytes = bytes;
    region.seconds = nest_seconds_ + elapsed(work(node, pointsOf(node.output)) / chip_.operationsPerSecond(),
                                             bytes / chip_.bytesPerSecond(far_), exposed_);
    return region;
  }

  /// Returns the region in slices of `slice` in memory level `level`. With `length` > 1, the slices along `halo_dim`
  /// form sequences of that length, and all slices of a sequence except the first compute only new elements.
  std::optional<Region> tiled(const std::vector<int64_t>& slice, size_t level, int halo_dim = -1,
                              int64_t length = 1) const {
    if (!aligned(slice)) return std::nullopt;
    auto shapes = inferSlices(graph_, nodes_, slice);
    if (!shapes) return std::nullopt;
    const int result = graph_.nodes[nodes_.back()].output;
    Region region{nodes_, static_cast<int>(level), slice};
    // With kept halos the unit of work is a sequence of `length` slices on one core.
    int64_t sequences = 1;
    for (size_t d = 0; d < slice.size(); ++d) {
      const int64_t along = ceilDiv(graph_.tensors[result].shape[d], slice[d]);
      region.slices *= along;
      sequences *= static_cast<int>(d) == halo_dim ? ceilDiv(along, length) : along;
    }
    // Rounds in which some cores have no slice, or sequence, cost as much as full rounds.
    const double rounds = static_cast<double>(sequences) * loadImbalance(sequences, chip_.cores());

    // External results must be written exactly once: slices may neither overlap nor leave out an element.
    for (int tensor : results_)
      if (!partitions(*shapes, tensor, slice)) return std::nullopt;

    const Chip::Level& memory = chip_.level(level);
    // The near memory must hold common operands, kept halos, and the peak of one slice.
    const double held = length > 1 ? overlapping(*shapes, slice, halo_dim) : 0;
    if (length > 1 && held == 0) return std::nullopt;  // nothing to keep
    const double resident = invariantBytes(*shapes);
    region.peak_bytes = resident + held + peak(*shapes);
    if (region.peak_bytes > static_cast<double>(chip_.residentBytes(memory))) {
      // Operands common to all slices do not fit permanently: they are streamed past the slice that needs the most.
      region.weights_resident = false;
      region.peak_bytes = held + peak(*shapes, /*with_invariant=*/true);
      if (region.peak_bytes > static_cast<double>(chip_.residentBytes(memory))) return std::nullopt;
    }
    const double fixed = region.weights_resident ? resident : 0, again = region.weights_resident ? 0 : resident;
    // The first slice of a sequence computes whole halos; the later ones only new elements.
    const Slice first = sliceOf(*shapes, memory, slice, -1, again);
    Slice next = first;
    if (length > 1) {
      const auto shorter = inferSlices(graph_, nodes_, slice, halo_dim);
      next = sliceOf(*shorter, memory, slice, halo_dim, again);
      region.halo_dim = halo_dim;
      region.sequence_length = length;
    }
    const auto firsts = static_cast<double>(sequences), others = static_cast<double>(region.slices - sequences);
    double needed = 0;
    for (int n : nodes_) needed += work(graph_.nodes[n], pointsOf(graph_.nodes[n].output));
    const double far = chip_.bytesPerSecond(far_);
    region.traffic_bytes = fixed + first.bytes * firsts + next.bytes * others;
    region.recomputed_flops = std::max(0.0, first.flops * firsts + next.flops * others - needed);
    region.seconds = fixed / far + rounds * (first.seconds + next.seconds * others / firsts);
    // Runs of a range compute whole slices, or whole sequences.
    std::vector<int64_t> distributed = slice;
    if (length > 1) distributed[halo_dim] = std::min(graph_.tensors[result].shape[halo_dim], length * slice[halo_dim]);
    region.seconds *= ofRuns(distributed);
    return region;
  }

 private:
  /// The cost of one slice.
  struct Slice {
    double flops = 0, bytes = 0;  ///< to and from the farthest memory
    double seconds = 0;
  };

  /// `shapes` are the result of inferSlices with the same `halo_dim`; `again`: bytes that every slice reloads.
  Slice sliceOf(const SliceShapes& shapes, const Chip::Level& memory, const std::vector<int64_t>& slice, int halo_dim,
                double again) const {
    Slice result{0, again};
    double runs = 0, compute = 0, moved = 0;
    int moves = 0;
    // With kept halos, only the elements that the slice before has not computed.
    auto made = [&](int tensor) { return shapes.added(tensor, halo_dim, halo_dim < 0 ? 0 : slice[halo_dim]); };
    // Transfers: outer operands and external results; each contiguous piece costs a run.
    for (int tensor : touched_) {
      if (inside_.at(tensor) || shapes.invariant(tensor)) continue;
      result.bytes += sliceBytes(shapes, tensor);
      runs += runsOf(shapes, tensor);
    }
    for (int tensor : results_) {
      result.bytes += sliceBytes(shapes, tensor);
      runs += runsOf(shapes, tensor);
    }
    // Inside the near memory each node takes the longer of arithmetic and its bytes. Kept elements are moved: a read
    // and a write, and one nest each.
    for (int n : nodes_) {
      const GraphNode& node = graph_.nodes[n];
      const double element = static_cast<double>(graph_.tensors[node.output].element_bytes);
      const double flops = work(node, made(node.output)), kept = shapes.points(node.output) - made(node.output);
      double bytes = made(node.output) * element;
      for (const GraphNode::Input& input : node.inputs) bytes += sliceBytes(shapes, input.tensor);
      compute += std::max(flops / chip_.operationsPerSecond(), bytes / chip_.bytesPerSecond(memory));
      result.flops += flops;
      moved += 2 * kept * element;
      moves += kept > 0 ? 1 : 0;
    }
    const v1::CostParameters::Overheads& parameters = chip_.costParameters().overheads();
    result.seconds = chip_.seconds(parameters.slice_cycles()) +
                     nest_seconds_ * static_cast<double>(nodes_.size() + static_cast<size_t>(moves)) +
                     chip_.seconds(parameters.run_cycles()) * runs +
                     elapsed(compute, result.bytes / chip_.bytesPerSecond(far_), exposed_) +
                     moved / chip_.bytesPerSecond(memory);
    return result;
  }

  double invariantBytes(const SliceShapes& shapes) const {
    double bytes = 0;
    for (int tensor : touched_)
      if (!inside_.at(tensor) && shapes.invariant(tensor)) bytes += sliceBytes(shapes, tensor);
    return bytes;
  }

  /// Returns the bytes of intermediates that overlap along `dim` and are kept from one slice to the next.
  double overlapping(const SliceShapes& shapes, const std::vector<int64_t>& slice, int dim) const {
    double bytes = 0;
    for (int n : nodes_) {
      const int tensor = graph_.nodes[n].output;
      if (shapes.added(tensor, dim, slice[dim]) < shapes.points(tensor)) bytes += sliceBytes(shapes, tensor);
    }
    return bytes;
  }

  double pointsOf(int tensor) const {
    double points = 1;
    for (int64_t extent : graph_.tensors[tensor].shape) points *= static_cast<double>(extent);
    return points;
  }
  double bytesOf(int tensor) const {
    return pointsOf(tensor) * static_cast<double>(graph_.tensors[tensor].element_bytes);
  }
  double sliceBytes(const SliceShapes& shapes, int tensor) const {
    return shapes.points(tensor) * static_cast<double>(graph_.tensors[tensor].element_bytes);
  }
  /// Returns the number of contiguous pieces of memory in one slice of `tensor`.
  double runsOf(const SliceShapes& shapes, int tensor) const {
    const std::vector<int64_t>& shape = graph_.tensors[tensor].shape;
    double run = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t size = std::min(shapes.needed[tensor][d].size, shape[d]);
      run *= static_cast<double>(size);
      if (size < shape[d]) break;
    }
    return shapes.points(tensor) / run;
  }
  /// Returns the average work of runs of all sizes relative to the needed work, since slices at their ends are whole.
  double ofRuns(const std::vector<int64_t>& slice) const {
    const GraphTensor& result = graph_.tensors[graph_.nodes[nodes_.back()].output];
    double share = 1;
    for (size_t d = 0; d < result.min_shape.size(); ++d)
      share *= paddingOverhead(slice[d], result.min_shape[d], result.shape[d]);
    return share;
  }
  static double work(const GraphNode& node, double points) { return node.flops_per_point * points; }

  /// Whether slices tile an external result: each dimension is whole, or cut in slice-sized steps without offset.
  bool partitions(const SliceShapes& shapes, int tensor, const std::vector<int64_t>& slice) const {
    std::vector<bool> cut(slice.size(), false);
    for (const Interval& interval : shapes.needed[tensor]) {
      if (interval.dim < 0) continue;
      if (interval.offset != 0 || interval.size != interval.scale * slice[interval.dim]) return false;
      cut[interval.dim] = true;
    }
    const int result = graph_.nodes[nodes_.back()].output;
    for (size_t d = 0; d < slice.size(); ++d)
      if (slice[d] < graph_.tensors[result].shape[d] && !cut[d]) return false;  // every slice would write it again
    return true;
  }

  /// Whether contiguous runs of a slice of the result are whole transfers (or the slice has the whole dimension).
  bool aligned(const std::vector<int64_t>& slice) const {
    const GraphTensor& result = graph_.tensors[graph_.nodes[nodes_.back()].output];
    int64_t run = result.element_bytes;
    for (size_t d = slice.size(); d-- > 0;) {
      run *= slice[d];
      if (slice[d] < result.shape[d]) return run % far_.line_bytes == 0;
    }
    return true;
  }

  /// Returns the peak bytes of a slice over all nodes, of values that depend on the slice only (or of all values).
  double peak(const SliceShapes& shapes, bool with_invariant = false) const {
    double most = 0;
    for (size_t at = 0; at < nodes_.size(); ++at) {
      double live = 0;
      for (int tensor : touched_) {
        if (!inside_.at(tensor) && shapes.invariant(tensor)) {
          const bool read_now = std::ranges::any_of(graph_.nodes[nodes_[at]].inputs,
                                                    [&](const auto& input) { return input.tensor == tensor; });
          if (with_invariant && read_now) live += sliceBytes(shapes, tensor);
          continue;
        }
        size_t first = nodes_.size(), last = 0;
        for (size_t n = 0; n < nodes_.size(); ++n) {
          const GraphNode& node = graph_.nodes[nodes_[n]];
          const bool uses = node.output == tensor ||
                            std::ranges::any_of(node.inputs, [&](const auto& input) { return input.tensor == tensor; });
          if (!uses) continue;
          first = std::min(first, n);
          last = n;
        }
        if (first <= at && at <= last) live += sliceBytes(shapes, tensor);
      }
      most = std::max(most, live);
    }
    return most;
  }

  const RegionGraph& graph_;
  const std::vector<int>& nodes_;
  const Chip& chip_;
  const Chip::Level& far_;
  double exposed_, nest_seconds_;
  std::set<int> touched_;
  std::map<int, bool> inside_;
  std::vector<int> results_;
};

/// Returns sizes that cut an extent evenly: whole, halves, ... down to single points.
std::vector<int64_t> sizesOf(int64_t extent) {
  std::vector<int64_t> sizes;
  for (int64_t blocks = 1; blocks < 2 * extent; blocks *= 2) sizes.push_back((extent + blocks - 1) / blocks);
  for (int64_t size = 1; size <= extent; size *= 2) sizes.push_back(size);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

std::optional<Region> planRegion(const RegionGraph& graph, const std::vector<int>& nodes, const Chip& chip,
                                 const RegionLevels& levels) {
  const RegionCost cost(graph, nodes, chip, levels.far);
  if (!cost.shaped()) return std::nullopt;
  std::optional<Region> best;
  if (nodes.size() == 1) best = cost.untiled();
  if (graph.nodes[nodes.back()].kind == GraphNode::Kind::kGlobalReduction) return best;
  const std::vector<int64_t> shape = graph.tensors[graph.nodes[nodes.back()].output].shape;
  std::vector<std::vector<int64_t>> sizes;
  for (int64_t extent : shape) sizes.push_back(sizesOf(extent));
  std::optional<Region> keeping;
  const bool slides = cost.slides();
  auto improve = [](std::optional<Region>& so_far, std::optional<Region> region) {
    if (region && (!so_far || region->seconds < so_far->seconds)) so_far = std::move(region);
  };
  auto consider = [&](const std::vector<int64_t>& slice) {
    for (size_t level : levels.near) {
      auto region = cost.tiled(slice, level);
      if (!region) continue;
      const int64_t slices = region->slices;
      improve(best, std::move(region));
      for (size_t d = 0; d < shape.size() && slides; ++d) {
        const int64_t along = ceilDiv(shape[d], slice[d]), around = slices / along;
        // One sequence for each core, or fewer.
        const int64_t length = ceilDiv(along, std::min(along, ceilDiv(chip.cores(), around)));
        if (length > 1) improve(keeping, cost.tiled(slice, level, static_cast<int>(d), length));
      }
    }
  };
  // Two dimensions are cut freely; those before the first one are whole or cut to single points.
  consider(shape);
  for (size_t a = 0; a < shape.size(); ++a)
    for (size_t b = a; b < shape.size(); ++b)
      for (int64_t first : sizes[a])
        for (int64_t second : sizes[b]) {
          if (a == b && first != second) continue;
          std::vector<int64_t> slice = shape;
          slice[a] = first;
          slice[b] = second;
          consider(slice);
          if (a == 0) continue;
          for (size_t d = 0; d < a; ++d) slice[d] = 1;
          consider(slice);
        }
  // Refines the slice sizes around the best one.
  for (bool better = best && best->level >= 0; better;) {
    const std::vector<int64_t> from = best->slice;
    const double seconds = best->seconds;
    for (size_t d = 0; d < shape.size(); ++d)
      for (int64_t step : {-from[d] / 8, int64_t{-1}, int64_t{1}, from[d] / 8}) {
        std::vector<int64_t> slice = from;
        slice[d] = std::clamp<int64_t>(slice[d] + step, 1, shape[d]);
        if (slice != from) consider(slice);
      }
    better = best->seconds < seconds;
  }
  if (!best || best->level < 0 || !keeping) return best;
  // Slices without kept halos may run in any order, so keeping halos must be clearly cheaper.
  if (keeping->seconds < best->seconds * (1 - 5e-3)) std::swap(*best, *keeping);
  best->other_seconds = keeping->seconds;
  return best;
}

}  // namespace tessera::compiler::fusion
