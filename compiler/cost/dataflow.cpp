#include "compiler/cost/dataflow.h"

#include <algorithm>

#include "compiler/cost/bound_tree.h"
#include "compiler/cost/latency.h"
#include "compiler/cost/limits.h"
#include "compiler/cost/movement.h"
#include "compiler/cost/work.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::cost {
namespace {

bool isConcurrent(v1::Tile::Join join) { return join == v1::Tile::PARA || join == v1::Tile::PIPE; }

/// Words per tensor of one instance of each level, in a subtree.
using Footprint = std::vector<std::vector<int64_t>>;

class Totals {
 public:
  Totals(const loopnest::Nest& nest, const Machine& machine, const BoundTree& tree)
      : nest_(nest), machine_(machine), tree_(tree), boundaries_(boundariesOf(tree)) {}

  DataflowCost run() {
    cost_.levels.resize(machine_.memories.size());
    for (size_t level = 0; level < cost_.levels.size(); ++level) {
      cost_.levels[level].name = machine_.memories[level].name;
      for (size_t tensor = 0; tensor < tree_.tensors.size(); ++tensor)
        cost_.levels[level].tensors.push_back(
            {.tensor = tree_.tensors[tensor], .word_bytes = tree_.word_bytes[tensor]});
    }
    for (const Boundary& boundary : boundaries_) count(boundary);
    countFootprints();
    countUnits();
    std::vector<LeafWork> work;
    for (size_t s = 0; s < tree_.statements.size(); ++s) {
      const auto unit = static_cast<size_t>(node(tree_.statements[s].leaf).unit);
      work.push_back(workOf(tree_, tree_.statements[s], nest_.statements[s].body.flops,
                            machine_.units[unit].operations_per_cycle));
      cost_.operations += work.back().operations;
    }
    const Latency latency = latencyOf(tree_, machine_, boundaries_, work);
    cost_.cycles = latency.cycles;
    cost_.compute_cycles = latency.compute_cycles;
    cost_.energy_pj = cost_.operations * machine_.energy_pj_per_operation;
    for (size_t level = 0; level < cost_.levels.size(); ++level) {
      for (const Traffic& traffic : cost_.levels[level].tensors)
        cost_.energy_pj += machine_.memories[level].energyOf((traffic.read + traffic.drain) * traffic.word_bytes,
                                                             (traffic.fill + traffic.update) * traffic.word_bytes);
    }
    std::vector<int64_t> units;
    units.reserve(machine_.units.size());
    for (size_t unit = 0; unit < machine_.units.size(); ++unit) units.push_back(countOf(0, static_cast<int>(unit)));
    cost_.violations = exceededLimits(cost_, units, machine_);
    return std::move(cost_);
  }

 private:
  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }

  Traffic& traffic(int level, int tensor) {
    return cost_.levels[static_cast<size_t>(level)].tensors[static_cast<size_t>(tensor)];
  }

  void count(const Boundary& boundary) {
    const double sent = boundary.read_words + boundary.partial_words;
    Traffic& outside = traffic(node(boundary.source).level, boundary.tensor);
    outside.read += sent;
    outside.update += boundary.update_words;
    if (boundary.level < 0) return;
    const double received = boundary.filled_words + boundary.partial_words;
    Traffic& inside = traffic(boundary.level, boundary.tensor);
    inside.fill += received;
    inside.drain += boundary.drained_words;
  }

  void countFootprints() {
    const Footprint all = footprintOf(0);
    for (size_t level = 0; level < all.size(); ++level) {
      LevelCost& cost = cost_.levels[level];
      cost.footprint = peaks_[level].words;
      cost.footprint_bytes = peaks_[level].bytes;
      for (size_t tensor = 0; tensor < tree_.tensors.size(); ++tensor)
        cost.tensors[tensor].footprint = all[level][tensor];
    }
  }

  struct Peak {
    int64_t words = 0, bytes = 0;
  };

  Peak totalOf(const std::vector<int64_t>& words) const {
    Peak total;
    for (size_t tensor = 0; tensor < words.size(); ++tensor) {
      total.words += words[tensor];
      total.bytes += words[tensor] * tree_.word_bytes[tensor];
    }
    return total;
  }

  /// Equation 3.13: children of Seq have the memory one after another, other children have parts of it. A buffer that
  /// children share counts once. Leaves the totals per level in peaks_.
  Footprint footprintOf(int position) {
    const BoundNode& here = node(position);
    const size_t levels = machine_.memories.size(), tensors = tree_.tensors.size();
    Footprint sum(levels, std::vector<int64_t>(tensors, 0));
    std::vector<Peak> peaks(levels);
    const bool exclusive = here.join == v1::Tile::SEQ && here.children.size() > 1;
    for (const int child : here.children) {
      Footprint inner = footprintOf(child);
      std::vector<Peak> inner_peaks = peaks_;
      for (const Boundary& boundary : boundaries_) {
        const bool first = !boundary.members.empty() && boundary.members.front() == child;
        const bool member = std::ranges::find(boundary.members, child) != boundary.members.end();
        if (boundary.tile != position || (exclusive ? !member : !first)) continue;
        const auto level = static_cast<size_t>(boundary.level), tensor = static_cast<size_t>(boundary.tensor);
        inner[level][tensor] += boundary.words;
        inner_peaks[level].words += boundary.words;
        inner_peaks[level].bytes += boundary.words * tree_.word_bytes[tensor];
      }
      for (size_t level = 0; level < levels; ++level) {
        for (size_t tensor = 0; tensor < tensors; ++tensor) {
          int64_t& words = sum[level][tensor];
          words = exclusive ? std::max(words, inner[level][tensor]) : words + inner[level][tensor];
        }
        Peak& peak = peaks[level];
        const Peak& other = inner_peaks[level];
        peak.words = exclusive ? std::max(peak.words, other.words) : peak.words + other.words;
        peak.bytes = exclusive ? std::max(peak.bytes, other.bytes) : peak.bytes + other.bytes;
      }
    }
    if (position == 0) {
      // The outermost memory holds every tensor that moves to or from it, whole.
      const size_t outermost = levels - 1;
      for (size_t tensor = 0; tensor < tensors; ++tensor)
        sum[outermost][tensor] = heldOutside(static_cast<int>(tensor));
      peaks[outermost] = totalOf(sum[outermost]);
    }
    peaks_ = std::move(peaks);
    return sum;
  }

  int64_t heldOutside(int tensor) const {
    const bool moves = std::ranges::any_of(boundaries_, [&](const Boundary& boundary) {
      return boundary.source == 0 && boundary.tensor == tensor && (boundary.filled || boundary.drained);
    });
    if (!moves) return 0;
    std::vector<Slice> slices;
    for (size_t s = 0; s < tree_.accesses.size(); ++s) {
      for (const BoundAccess& access : tree_.accesses[s]) {
        if (access.tensor != tensor) continue;
        Slice slice = sliceOf(access, tree_.statements[s].extents.front());
        if (std::ranges::find(slices, slice) == slices.end()) slices.push_back(std::move(slice));
      }
    }
    return static_cast<int64_t>(std::min(unionSize(slices), kMaxWords));
  }

  /// Equation 3.12 for the units of a kind (`level` < 0) or the instances of a level, below a tile.
  int64_t unitsOf(int position, int level, int outer_level) const {
    const BoundNode& here = node(position);
    // Instances of the level: spatial loops around the outermost tile of the level.
    if (level >= 0 && here.level <= level && outer_level > level) return here.level == level ? 1 : 0;
    int64_t factor = 1;
    if (!here.statements.empty()) {
      const StatementView& view = tree_.statements[static_cast<size_t>(here.statements.front())];
      for (size_t i = here.first_loop; i < here.end_loop; ++i)
        if (view.loops[i].spatial) factor *= view.loops[i].count;
    }
    if (here.isLeaf()) return level < 0 ? factor : 0;
    int64_t units = 0;
    for (const int child : here.children) {
      const int64_t inner = unitsOf(child, level, here.level);
      units = isConcurrent(here.join) ? units + inner : std::max(units, inner);
    }
    return factor * units;
  }

  void countUnits() {
    cost_.units = unitsOf(0, -1, 0);
    const int outermost = static_cast<int>(machine_.memories.size()) - 1;
    for (int level = 0; level <= outermost; ++level)
      cost_.levels[static_cast<size_t>(level)].units = level == outermost ? 1 : unitsOf(0, level, outermost);
  }

  /// Units of one kind that work at the same time below a tile.
  int64_t countOf(int position, int unit) const {
    const BoundNode& here = node(position);
    int64_t units = here.isLeaf() && here.unit == unit ? 1 : 0;
    for (const int child : here.children) {
      const int64_t inner = countOf(child, unit);
      units = isConcurrent(here.join) ? units + inner : std::max(units, inner);
    }
    if (here.statements.empty()) return units;
    const StatementView& view = tree_.statements[static_cast<size_t>(here.statements.front())];
    for (size_t i = here.first_loop; i < here.end_loop; ++i)
      if (view.loops[i].spatial) units *= view.loops[i].count;
    return units;
  }

  const loopnest::Nest& nest_;
  const Machine& machine_;
  const BoundTree& tree_;
  std::vector<Boundary> boundaries_;
  std::vector<Peak> peaks_;
  DataflowCost cost_;
};

}  // namespace

absl::StatusOr<DataflowCost> analyzeDataflow(const loopnest::Nest& nest, const v1::Schedule& tree,
                                             const Machine& machine) {
  TESSERA_ASSIGN_OR_RETURN(const BoundTree bound, bindTree(nest, tree, machine));
  return Totals(nest, machine, bound).run();
}

}  // namespace tessera::compiler::cost
