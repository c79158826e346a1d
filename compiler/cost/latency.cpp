#include "compiler/cost/latency.h"

#include <algorithm>
#include <optional>

namespace tessera::compiler::cost {
namespace {

/// Cycles that each port of a level is busy: [2 * level] sends, [2 * level + 1] receives.
using Ports = absl::InlinedVector<double, 12>;

/// A step of a tile, or a run of all its steps.
struct Span {
  double cycles = 0;
  Ports ports;
};

/// The loop whose step begins a step of a tile; kFirst: the first step of the run.
constexpr int kFirst = -1;
constexpr int kEveryTensor = -1;

/// How the slices of a step arrive before it begins.
enum class Begin {
  kLoading,  ///< the slices arrive during the step before, which takes as long as this one
  kHidden,   ///< they arrive while siblings run; they use the ports
  kLoaded,   ///< they have arrived, and are counted elsewhere
};

class Model {
 public:
  Model(const BoundTree& tree, const Machine& machine, const std::vector<Boundary>& boundaries,
        const std::vector<LeafWork>& work, const std::vector<std::vector<double>>& steps, bool with_transfers)
      : tree_(tree),
        machine_(machine),
        work_(work),
        steps_(steps),
        spans_(tree.nodes.size()),
        boundaries_(tree.nodes.size()) {
    const size_t nodes = tree.nodes.size();
    for (size_t tile = 0; tile < nodes; ++tile) {
      const size_t depth = tree.nodes[tile].end_loop;
      spans_[tile].resize(3 * (depth + 1));
    }
    if (!with_transfers) return;
    for (const Boundary& boundary : boundaries) boundaries_[static_cast<size_t>(boundary.tile)].push_back(&boundary);
  }

  double cycles() {
    const double steps = startup(0, kFirst, kEveryTensor) + step(0, kFirst, Begin::kLoaded).cycles + pipelineFill(0) +
                         tail(0, kEveryTensor);
    return std::max(steps, longest(busy(0)));
  }

 private:
  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }
  size_t statementOf(int tile) const { return static_cast<size_t>(node(tile).statements.front()); }
  const StatementView& viewOf(int tile) const { return tree_.statements[statementOf(tile)]; }
  static bool isConcurrent(const BoundNode& tile) {
    return tile.children.size() > 1 && (tile.join == v1::Tile::PARA || tile.join == v1::Tile::PIPE);
  }
  static bool isExclusive(const BoundNode& tile) { return tile.children.size() > 1 && tile.join == v1::Tile::SEQ; }

  /// Steps of the tile in the whole run that begin with a step of this loop.
  double occurrences(int tile, int loop) const {
    if (loop == kFirst) return 1;
    const auto& steps = steps_[statementOf(tile)];
    return steps[static_cast<size_t>(loop) + 1] - steps[static_cast<size_t>(loop)];
  }

  Ports idle() const { return Ports(2 * machine_.memories.size(), 0); }

  double instances(int tile, size_t loops) const {
    double product = 1;
    for (size_t i = 0; i < loops; ++i)
      if (viewOf(tile).loops[i].spatial) product *= static_cast<double>(viewOf(tile).loops[i].count);
    return product;
  }

  static const LoopMoves& movesOf(const BoundaryMoves& moves, int loop) {
    return loop == kFirst ? moves.first : moves.by_loop[static_cast<size_t>(loop)];
  }

  /// Adds a transfer from the source to the buffers (or back), of `distinct` words at all sources and `words` at all
  /// buffers.
  void transfer(const Boundary& boundary, double distinct, double words, bool inwards, Ports& ports) const {
    const double word = tree_.word_bytes[static_cast<size_t>(boundary.tensor)];
    const auto outside = static_cast<size_t>(node(boundary.source).level);
    const Machine::Memory& outer = machine_.memories[outside];
    ports[2 * outside + (inwards ? 0 : 1)] +=
        Machine::cyclesFor(word * distinct / instances(boundary.tile, node(boundary.source).first_loop),
                           inwards ? outer.read_bytes_per_cycle : outer.write_bytes_per_cycle);
    if (boundary.level < 0) return;
    const auto inside = static_cast<size_t>(boundary.level);
    const Machine::Memory& inner = machine_.memories[inside];
    ports[2 * inside + (inwards ? 1 : 0)] +=
        Machine::cyclesFor(word * words / instances(boundary.tile, node(boundary.tile).end_loop),
                           inwards ? inner.write_bytes_per_cycle : inner.read_bytes_per_cycle);
  }

  void loads(const Boundary& boundary, int loop, Ports& ports) const {
    const double times = occurrences(boundary.tile, loop);
    if (!boundary.filled || times == 0) return;
    const LoopMoves& moves = movesOf(boundary.fills, loop);
    transfer(boundary, moves.distinct / times, moves.words / times, true, ports);
  }

  /// Results that leave when the loop makes a step, and partial sums that return.
  void stores(const Boundary& boundary, int loop, Ports& ports) const {
    const double times = occurrences(boundary.tile, loop);
    if (!boundary.drained || loop == kFirst || times == 0) return;
    const LoopMoves& moves = movesOf(boundary.results, loop);
    transfer(boundary, moves.distinct / times, moves.words / times, false, ports);
    double later = 0;
    for (const LoopMoves& each : boundary.results.by_loop) later += each.distinct;
    if (later == 0 || boundary.partial_words == 0) return;
    const double returning = moves.distinct * boundary.partial_words / later / times;
    transfer(boundary, returning, returning, true, ports);
  }

  /// Cycles of all transfers of the run below the tile. No run is shorter than the busiest port works.
  Ports busy(int tile) const {
    const BoundNode& here = node(tile);
    Ports ports = idle();
    const auto add = [&](const Boundary& boundary, const BoundaryMoves& moves, bool inwards) {
      LoopMoves all = moves.first;
      for (const LoopMoves& each : moves.by_loop) {
        all.distinct += each.distinct;
        all.words += each.words;
      }
      transfer(boundary, all.distinct, all.words, inwards, ports);
    };
    for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)]) {
      if (boundary->filled) add(*boundary, boundary->fills, true);
      if (boundary->drained) add(*boundary, boundary->results, false);
      transfer(*boundary, boundary->partial_words, boundary->partial_words, true, ports);
    }
    Ports inside = idle();
    for (const int child : here.children) {
      const Ports inner = busy(child);
      for (size_t p = 0; p < inside.size(); ++p)
        inside[p] = worksApart(here, p) ? std::max(inside[p], inner[p]) : inside[p] + inner[p];
    }
    for (size_t p = 0; p < ports.size(); ++p) ports[p] += inside[p];
    return ports;
  }

  /// Whether children of the tile that run at once have the port in instances of their own.
  static bool worksApart(const BoundNode& tile, size_t port) {
    return isConcurrent(tile) && static_cast<int>(port / 2) < tile.level;
  }

  static bool isFor(const Boundary& boundary, int child) {
    return boundary.members.empty() || boundary.members.front() == child;
  }

  static double longest(const Ports& ports) { return *std::ranges::max_element(ports); }

  /// Transfers that the first leaf below the tile waits for, one level after another.
  double startup(int tile, int loop, int tensor) const {
    const BoundNode& here = node(tile);
    // Seq counts the transfers at the begin of each child.
    if (isExclusive(here)) return 0;
    Ports ports = idle();
    for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)])
      if (tensor == kEveryTensor || boundary->tensor == tensor) loads(*boundary, loop, ports);
    return longest(ports) + (here.isLeaf() ? 0 : startup(here.children.front(), loop, tensor));
  }

  /// Transfers that follow the last leaf below the tile.
  double tail(int tile, int tensor) const {
    const BoundNode& here = node(tile);
    if (isExclusive(here)) return 0;
    return lastStores(tile, tensor, here.isLeaf() ? -1 : here.children.back()) +
           (here.isLeaf() ? 0 : tail(here.children.back(), tensor));
  }

  double lastStores(int tile, int tensor, int child) const {
    Ports ports = idle();
    for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)]) {
      if (!boundary->drained || (tensor != kEveryTensor && boundary->tensor != tensor)) continue;
      if (child >= 0 && std::ranges::find(boundary->members, child) == boundary->members.end()) continue;
      transfer(*boundary, boundary->results.first.distinct, boundary->results.first.words, false, ports);
    }
    return longest(ports);
  }

  /// What the child waits for after the one before it has ended: results on their way from one to the other.
  double handOver(int tile, int before, int child, int loop) const {
    double most = 0;
    for (const int s : node(before).statements) {
      const int tensor = tree_.accesses[static_cast<size_t>(s)].back().tensor;
      const auto& readers = tree_.readers[static_cast<size_t>(tensor)];
      const bool reads = std::ranges::any_of(readers, [&](int reader) {
        return std::ranges::find(node(child).statements, reader) != node(child).statements.end();
      });
      if (!reads) continue;
      Ports ports = idle();
      for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)])
        if (boundary->tensor == tensor && isFor(*boundary, child)) loads(*boundary, loop, ports);
      most = std::max(most, tail(before, tensor) + lastStores(tile, tensor, before) + longest(ports) +
                                startup(child, loop, tensor));
    }
    return most;
  }

  /// Pipe: its first step passes through all children.
  double pipelineFill(int tile) {
    const BoundNode& here = node(tile);
    if (here.isLeaf() || (here.children.size() > 1 && !isConcurrent(here))) return 0;
    double sum = 0, most = 0, inside = 0;
    for (size_t child = 0; child < here.children.size(); ++child) {
      const double cycles = run(here.children[child], kFirst, Begin::kLoaded).cycles;
      if (child > 0) sum += handOver(tile, here.children[child - 1], here.children[child], kFirst);
      sum += cycles;
      most = std::max(most, cycles);
      inside = std::max(inside, pipelineFill(here.children[child]));
    }
    return inside + (isConcurrent(here) && here.join == v1::Tile::PIPE ? sum - most : 0);
  }

  /// All steps of one run of the tile, which a step of an outer loop begins.
  Span run(int tile, int loop, Begin begin) {
    const BoundNode& here = node(tile);
    Span all = step(tile, loop, begin);
    const double runs = steps_[statementOf(tile)][here.first_loop];
    for (size_t i = here.first_loop; i < here.end_loop; ++i) {
      const double times = occurrences(tile, static_cast<int>(i)) / runs;
      if (times == 0) continue;
      const Span& own = step(tile, static_cast<int>(i), Begin::kLoading);
      all.cycles += times * own.cycles;
      for (size_t p = 0; p < all.ports.size(); ++p) all.ports[p] += times * own.ports[p];
    }
    return all;
  }

  /// One step.
  const Span& step(int tile, int loop, Begin begin) {
    const size_t place = 3 * static_cast<size_t>(loop + 1) + static_cast<size_t>(begin);
    if (!spans_[static_cast<size_t>(tile)][place]) {
      Span span = compute(tile, loop, begin);
      spans_[static_cast<size_t>(tile)][place] = std::move(span);
    }
    return *spans_[static_cast<size_t>(tile)][place];
  }

  /// How long a child waits for the slices of its first step, which arrive during the last step of its run before and
  /// `others` cycles of siblings.
  double firstWait(int tile, int loop, double others) {
    const BoundNode& here = node(tile);
    if (isExclusive(here)) return 0;
    Ports ports = idle();
    for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)]) loads(*boundary, loop, ports);
    double before = 0;
    for (size_t i = here.first_loop; i < here.end_loop; ++i)
      if (occurrences(tile, static_cast<int>(i)) > 0) before = step(tile, static_cast<int>(i), Begin::kLoading).cycles;
    if (before == 0) before = step(tile, loop, Begin::kHidden).cycles;
    const double wait = std::max(0.0, longest(ports) - before - others);
    return here.isLeaf() ? wait : std::max(wait, firstWait(here.children.front(), loop, others));
  }

  Span compute(int tile, int loop, Begin begin) {
    const BoundNode& here = node(tile);
    Span span{.ports = idle()};
    if (here.isLeaf()) {
      const LeafWork& work = work_[static_cast<size_t>(here.statement)];
      span.cycles = work.cycles / work.steps;
    }
    const bool exclusive = isExclusive(here), concurrent = isConcurrent(here), several = here.children.size() > 1;
    std::vector<double> own;
    for (size_t c = 0; c < here.children.size(); ++c) {
      const int child = here.children[c];
      // The first step of a child follows the siblings, not the step before.
      const Begin first = exclusive || (begin == Begin::kLoaded && (concurrent || c == 0)) ? Begin::kLoaded
                          : several                                                        ? Begin::kHidden
                                                                                           : begin;
      const Span inner = run(child, loop, first);
      double cycles = inner.cycles;
      if (exclusive) {
        Ports arriving = idle();
        for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)])
          if (isFor(*boundary, child)) loads(*boundary, loop, arriving);
        cycles += longest(arriving) + startup(child, loop, kEveryTensor) + tail(child, kEveryTensor) +
                  lastStores(tile, kEveryTensor, child);
      } else if (!concurrent && c > 0) {
        cycles += handOver(tile, here.children[c - 1], child, loop);
      }
      if (!concurrent && several) cycles += pipelineFill(child);
      own.push_back(cycles);
      span.cycles = concurrent ? std::max(span.cycles, cycles) : span.cycles + cycles;
      // Children that run at once have instances of their own of the levels inside.
      for (size_t p = 0; p < span.ports.size(); ++p) {
        span.ports[p] = worksApart(here, p) ? std::max(span.ports[p], inner.ports[p]) : span.ports[p] + inner.ports[p];
      }
    }
    if (several && !exclusive && loop != kFirst) {
      const double all = span.cycles;
      for (size_t c = 0; c < here.children.size(); ++c) {
        const double wait = firstWait(here.children[c], loop, all - own[c]);
        span.cycles = concurrent ? std::max(span.cycles, own[c] + wait) : span.cycles + wait;
      }
    }
    double least = 0;
    for (const Boundary* boundary : boundaries_[static_cast<size_t>(tile)]) {
      if (begin == Begin::kLoaded || exclusive) continue;
      loads(*boundary, loop, span.ports);
      stores(*boundary, loop, span.ports);
    }
    if (begin != Begin::kHidden) least = longest(span.ports);
    span.cycles = std::max(span.cycles, least);
    return span;
  }

  const BoundTree& tree_;
  const Machine& machine_;
  const std::vector<LeafWork>& work_;
  std::vector<std::vector<double>> steps_;                ///< [tile][loops]: steps of the first loops around it
  std::vector<std::vector<std::optional<Span>>> spans_;   ///< [tile][3 * (loop + 1) + Begin]
  std::vector<std::vector<const Boundary*>> boundaries_;  ///< of each tile
};

}  // namespace

Latency latencyOf(const BoundTree& tree, const Machine& machine, const std::vector<Boundary>& boundaries,
                  const std::vector<LeafWork>& work) {
  std::vector<std::vector<double>> steps;
  steps.reserve(tree.statements.size());
  for (const StatementView& view : tree.statements) steps.push_back(stepsOf(tree, view));
  return {.cycles = Model(tree, machine, boundaries, work, steps, true).cycles(),
          .compute_cycles = Model(tree, machine, boundaries, work, steps, false).cycles()};
}

}  // namespace tessera::compiler::cost
