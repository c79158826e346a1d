#include "compiler/cost/dataflow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/cost/bound_tree.h"
#include "compiler/cost/movement.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::cost {
namespace {

bool isConcurrent(v1::Tile::Join join) { return join == v1::Tile::PARA || join == v1::Tile::PIPE; }

/// Words per tensor of one instance of each level, in a subtree.
using Footprint = std::vector<std::vector<int64_t>>;

class Totals {
 public:
  Totals(const loopnest::Nest& nest, const Machine& machine, const BoundTree& tree)
      : nest_(nest), machine_(machine), tree_(tree), boundaries_(boundariesOf(tree)), ports_(tree.nodes.size()) {}

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
    const Latency latency = latencyOf(0);
    cost_.cycles = latency.cycles;
    cost_.compute_cycles = latency.compute;
    cost_.energy_pj = cost_.operations * machine_.energy_pj_per_operation;
    for (size_t level = 0; level < cost_.levels.size(); ++level) {
      for (const Traffic& traffic : cost_.levels[level].tensors)
        cost_.energy_pj += (traffic.read + traffic.fill + traffic.update + traffic.drain) * traffic.word_bytes *
                           machine_.memories[level].energy_pj_per_byte;
    }
    checkLimits();
    return std::move(cost_);
  }

 private:
  /// Bytes through the ports of one tile's level, over all its instances.
  struct Ports {
    double in = 0, out = 0;
  };
  struct Latency {
    double cycles = 0, compute = 0;
  };

  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }

  Traffic& traffic(int level, int tensor) {
    return cost_.levels[static_cast<size_t>(level)].tensors[static_cast<size_t>(tensor)];
  }

  void count(const Boundary& boundary) {
    const double bytes = tree_.word_bytes[static_cast<size_t>(boundary.tensor)];
    const double sent = boundary.read_words + boundary.partial_words;
    Traffic& outside = traffic(node(boundary.source).level, boundary.tensor);
    outside.read += sent;
    outside.update += boundary.update_words;
    ports_[static_cast<size_t>(boundary.source)].out += sent * bytes;
    ports_[static_cast<size_t>(boundary.source)].in += boundary.update_words * bytes;
    if (boundary.level < 0) return;
    const double received = boundary.filled_words + boundary.partial_words;
    Traffic& inside = traffic(boundary.level, boundary.tensor);
    inside.fill += received;
    inside.drain += boundary.drained_words;
    Ports& ports = ports_[static_cast<size_t>(boundary.members.front())];
    ports.in += received * bytes;
    ports.out += boundary.drained_words * bytes;
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
    double most = 0;
    for (const auto& accesses : tree_.accesses) {
      for (const BoundAccess& access : accesses) {
        if (access.tensor != tensor) continue;
        double words = 1;
        for (const loopnest::Subscript& subscript : access.access->subscripts) {
          const loopnest::Range range = loopnest::rangeOf(subscript, nest_.extents());
          words *= static_cast<double>(range.high - range.low + 1);
        }
        most = std::max(most, words);
      }
    }
    return static_cast<int64_t>(std::min(most, kMostWords));
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

  /// Equation 3.22, for the whole run instead of one execution of the tile: loads, stores and the children overlap.
  Latency latencyOf(int position) {
    const BoundNode& here = node(position);
    Latency latency;
    if (here.isLeaf()) {
      latency.compute = computeCycles(here);
      latency.cycles = latency.compute;
    }
    for (const int child : here.children) {
      const Latency inner = latencyOf(child);
      const auto join = [&](double& all, double one) {
        all = isConcurrent(here.join) ? std::max(all, one) : all + one;
      };
      join(latency.cycles, inner.cycles);
      join(latency.compute, inner.compute);
    }
    const Machine::Memory& memory = machine_.memories[static_cast<size_t>(here.level)];
    double instances = 1;
    if (!here.statements.empty()) {
      const StatementView& view = tree_.statements[static_cast<size_t>(here.statements.front())];
      for (size_t i = 0; i < here.first_loop; ++i)
        if (view.loops[i].spatial) instances *= static_cast<double>(view.loops[i].count);
    }
    const Ports& ports = ports_[static_cast<size_t>(position)];
    latency.cycles = std::max({latency.cycles, ports.out / (instances * memory.read_bytes_per_cycle),
                               ports.in / (instances * memory.write_bytes_per_cycle)});
    return latency;
  }

  /// The leaf's instruction handles the iterations that its loops leave, in one cycle or more.
  double computeCycles(const BoundNode& leaf) {
    const loopnest::Statement& statement = nest_.statements[static_cast<size_t>(leaf.statement)];
    const StatementView& view = tree_.statements[static_cast<size_t>(leaf.statement)];
    double operations = statement.body.flops, steps = 1, copies = 1;
    for (const int loop : statement.loops)
      operations *= static_cast<double>(view.extents.back()[static_cast<size_t>(loop)]);
    for (const BoundLoop& loop : view.loops) (loop.spatial ? copies : steps) *= static_cast<double>(loop.count);
    cost_.operations += operations * steps * copies;
    return steps * std::max(1.0, operations / machine_.units[static_cast<size_t>(leaf.unit)].operations_per_cycle);
  }

  void checkLimits() {
    for (size_t level = 0; level < cost_.levels.size(); ++level) {
      const LevelCost& used = cost_.levels[level];
      const Machine::Memory& memory = machine_.memories[level];
      if (memory.capacity_bytes > 0 && used.footprint_bytes > memory.capacity_bytes)
        cost_.violations.push_back(absl::StrCat(memory.name, ": ", used.footprint_bytes,
                                                " bytes are needed, an instance has ", memory.capacity_bytes));
      if (used.units > memory.instances)
        cost_.violations.push_back(
            absl::StrCat(memory.name, ": ", used.units, " instances are needed, the chip has ", memory.instances));
    }
    for (size_t unit = 0; unit < machine_.units.size(); ++unit) {
      const int64_t used = countOf(0, static_cast<int>(unit));
      if (used > machine_.units[unit].count)
        cost_.violations.push_back(absl::StrCat(machine_.units[unit].name, ": ", used,
                                                " units are needed, the chip has ", machine_.units[unit].count));
    }
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
  std::vector<Ports> ports_;
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
