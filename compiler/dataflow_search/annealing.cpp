#include "compiler/dataflow_search/annealing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/dataflow_search/tile_space.h"

namespace tessera::compiler::dataflow_search {
namespace {

/// Temperatures in units of the logarithm of the score.
constexpr double kHottest = 0.3, kColdest = 0.002;
/// Trees that exceed a capacity count as slower by this power of the excess.
constexpr double kExcessPower = 3;
/// Rounds of the tournament of structures; each keeps a third of them.
constexpr int kRounds = 3;

/// The phases and the binding of a tree, without its tiles.
struct Skeleton {
  std::vector<int> ends;  ///< of each phase
  int split = 1;
  v1::Tile::Join join = v1::Tile::SHAR;
};

/// Counts of one tile's loops. Steps follow from the iterations that the tile meets.
struct Counts {
  Extents spatial, temporal;  ///< one per loop of the nest
  std::vector<int> order;     ///< of the temporal loops, outermost first
};
struct PhaseCounts {
  int begin = 0, end = 0;
  std::vector<int> shared_loops;
  std::vector<Counts> shared;
  std::vector<std::vector<Counts>> own;  ///< by operator and level, outermost first
  std::vector<int> unit;
};

int64_t smallestFactor(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0) return factor;
  return number;
}

/// One chain of states.
class Chain {
 public:
  Chain(const loopnest::Nest& nest, const cost::Machine& machine, const AnnealingOptions& options,
        const Skeleton& skeleton, size_t number)
      : nest_(nest),
        machine_(machine),
        options_(options),
        space_(nest, machine, {}, options.restriction, [] { return false; }),
        windows_(windowLoops(nest)),
        number_(number),
        random_(options.seed + number) {
    const int outermost = static_cast<int>(machine.memories.size()) - 1;
    int begin = 0;
    for (const int end : skeleton.ends) {
      const bool alone = end - begin == 1;
      PhaseCounts phase;
      phase.begin = begin;
      phase.end = end;
      phase.shared_loops = space_.sharedLoops(begin, end, true);
      const int split = alone ? outermost : skeleton.split;
      phase.shared.assign(static_cast<size_t>(outermost - split + 1), none());
      phase.own.assign(static_cast<size_t>(end - begin), std::vector<Counts>(static_cast<size_t>(split), none()));
      phase.unit.assign(static_cast<size_t>(end - begin), 0);
      phases_.push_back(std::move(phase));
      joins_.push_back(alone ? v1::Tile::SHAR : skeleton.join);
      begin = end;
    }
  }

  /// Continues the chain.
  void run(int64_t proposals, double hottest) {
    for (int64_t i = 0; i < proposals && !options_.stopped(); ++i) {
      const double progress = static_cast<double>(i) / static_cast<double>(proposals);
      const double temperature = hottest * std::pow(kColdest / hottest, progress);
      std::vector<PhaseCounts> proposal = phases_;
      for (uint64_t moves = 1 + below(2); moves > 0; --moves) mutate(proposal[below(proposal.size())]);
      const std::optional<double> energy = price(proposal);
      if (!energy) continue;
      if (*energy > energy_ && uniform() >= std::exp((energy_ - *energy) / temperature)) continue;
      energy_ = *energy;
      phases_ = std::move(proposal);
    }
  }

  double energy() const { return best_ ? std::log(best_->score) : energy_; }
  size_t number() const { return number_; }
  const std::optional<Found>& best() const { return best_; }

 private:
  Counts none() const {
    const size_t loops = nest_.loops.size();
    Counts counts{.spatial = Extents(loops, 1), .temporal = Extents(loops, 1), .order = std::vector<int>(loops)};
    std::iota(counts.order.begin(), counts.order.end(), 0);
    return counts;
  }

  uint64_t below(size_t limit) { return random_() % limit; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  template <typename T>
  T oneOf(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  /// A tile of the phase: a shared one, or one of an operator.
  std::pair<Counts*, const std::vector<int>*> tileOf(PhaseCounts& phase) {
    const size_t tiles = phase.shared.size() + phase.own.size() * phase.own.front().size();
    const size_t chosen = below(tiles);
    if (chosen < phase.shared.size()) return {&phase.shared[chosen], &phase.shared_loops};
    const size_t op = (chosen - phase.shared.size()) / phase.own.front().size();
    const size_t level = (chosen - phase.shared.size()) % phase.own.front().size();
    return {&phase.own[op][level], &at(nest_.statements, phase.begin + static_cast<int>(op)).loops};
  }

  void mutate(PhaseCounts& phase) {
    const auto [tile, loops] = tileOf(phase);
    if (loops->empty()) return;
    const int loop = oneOf(*loops);
    switch (below(8)) {
      case 0: {
        auto& order = tile->order;
        const size_t from = below(order.size()), to = below(order.size());
        const int moved = order[from];
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), moved);
        return;
      }
      case 1:
        phase.unit[below(phase.unit.size())] = static_cast<int>(below(std::min(machine_.units.size(), kMaxUnits)));
        return;
      default:
        break;
    }
    // Moves a factor of the loop from one count to another one, of this tile or of a second one.
    int64_t& count = at(below(2) == 0 ? tile->spatial : tile->temporal, loop);
    if (below(2) == 0) {
      const int64_t factor =
          smallestFactor(at(nest_.loops, loop).extent / std::gcd(count, at(nest_.loops, loop).extent));
      if (factor > 1) count *= factor;
    } else if (count > 1) {
      count /= smallestFactor(count);
    }
    const auto [second, second_loops] = tileOf(phase);
    if (below(2) == 0 || std::ranges::find(*second_loops, loop) == second_loops->end()) return;
    int64_t& other = at(below(2) == 0 ? second->spatial : second->temporal, loop);
    if (below(2) == 0 || other == 1) {
      other *= smallestFactor(at(nest_.loops, loop).extent);
    } else {
      other /= smallestFactor(other);
    }
  }

  int64_t fanOut(int level) const {
    const int64_t inside = level > 0 ? at(machine_.memories, level - 1).instances : machine_.units[0].count;
    return std::max<int64_t>(1, inside / at(machine_.memories, level).instances);
  }

  /// Reduces counts to divisors of the iterations that the tile meets, and returns its loops; none if it needs too many
  /// instances.
  std::optional<TileLoops> loopsOf(Counts& counts, const std::vector<int>& loops, Extents& left, int64_t fan_out) {
    TileLoops spatial;
    std::vector<bool> cut(nest_.loops.size(), false);
    for (const int loop : loops) at(cut, loop) = true;
    TileLoops temporal;
    for (int loop = 0; loop < static_cast<int>(nest_.loops.size()); ++loop) {
      int64_t& across = at(counts.spatial, loop);
      int64_t& after = at(counts.temporal, loop);
      if (!at(cut, loop)) {
        across = after = 1;
        continue;
      }
      across = std::gcd(across, at(left, loop));
      fan_out /= across;
      at(left, loop) /= across;
      if (across > 1) spatial.push_back({.loop = loop, .step = at(left, loop), .count = across, .spatial = true});
      after = std::gcd(after, at(left, loop));
      at(left, loop) /= after;
    }
    if (fan_out == 0) return std::nullopt;
    for (const int loop : counts.order)
      if (at(counts.temporal, loop) > 1)
        temporal.push_back({.loop = loop, .step = at(left, loop), .count = at(counts.temporal, loop)});
    spatial.insert(spatial.end(), temporal.begin(), temporal.end());
    return spatial;
  }

  /// Puts the tile's temporal loops into an order of the space.
  void useOrderOfSpace(TileLoops& loops, const Movers& movers) {
    const auto first = std::ranges::find_if(loops, [](const TileLoop& loop) { return !loop.spatial; });
    if (loops.end() - first <= 3) return;  // all orders
    const TileLoops temporal(first, loops.end());
    const std::vector<TileLoops> orders = ordersOf(temporal, movers);
    if (std::ranges::find(orders, temporal) == orders.end()) std::ranges::copy(oneOf(orders), first);
  }

  /// A step of the leaf takes at most one cycle, and no loop of it could take its next larger divisor.
  void fillUnit(Counts& counts, const std::vector<int>& loops, Extents left, int s, int unit) {
    const double flops = at(nest_.statements, s).body.flops, rate = at(machine_.units, unit).operations_per_cycle;
    const double most = std::max(1.0, flops > 0 ? rate / flops : rate);
    double iterations = 1;
    for (const int loop : loops) {
      at(counts.spatial, loop) = std::gcd(at(counts.spatial, loop), at(left, loop));
      at(left, loop) /= at(counts.spatial, loop);
      at(counts.temporal, loop) = std::gcd(at(counts.temporal, loop), at(left, loop));
      const int64_t inside = at(left, loop) / at(counts.temporal, loop);
      iterations *= static_cast<double>(inside);
    }
    std::vector<int> order = loops;
    std::ranges::shuffle(order, random_);
    for (const int loop : order) {
      while (iterations > most) {
        const int64_t inside = at(left, loop) / at(counts.temporal, loop);
        if (inside == 1) break;
        const int64_t factor = smallestFactor(inside);
        at(counts.temporal, loop) *= factor;
        iterations /= static_cast<double>(factor);
      }
    }
    for (const int loop : order) {
      while (at(counts.temporal, loop) > 1) {
        const int64_t factor = smallestFactor(at(counts.temporal, loop));
        if (iterations * static_cast<double>(factor) > most) break;
        at(counts.temporal, loop) /= factor;
        iterations *= static_cast<double>(factor);
      }
    }
  }

  std::optional<v1::Tile> treeOf(PhaseCounts& phase, v1::Tile::Join join) {
    SharedTiles shared{.begin = phase.begin, .end = phase.end, .join = join, .running = false, .tiles = {}};
    int level = static_cast<int>(machine_.memories.size()) - 1;
    Extents left;
    for (const loopnest::Loop& loop : nest_.loops) left.push_back(loop.extent);
    const Movers movers = moversOf(nest_, phase.begin, phase.end);
    for (Counts& counts : phase.shared) {
      auto loops = loopsOf(counts, phase.shared_loops, left, fanOut(level--));
      if (!loops) return std::nullopt;
      useOrderOfSpace(*loops, movers);
      shared.tiles.push_back(*std::move(loops));
    }
    shared.running = phase.end - phase.begin > 1 && space_.cutsRunningReduction(shared);
    const std::vector<Extents> inside = space_.extentsInside(shared);
    if (inside.empty()) return std::nullopt;
    std::vector<OperatorTiles> operators;
    for (size_t op = 0; op < phase.own.size(); ++op) {
      const int s = phase.begin + static_cast<int>(op);
      const std::vector<int>& loops = at(nest_.statements, s).loops;
      std::vector<int> outer;
      for (const int loop : loops)
        if (!at(windows_, loop)) outer.push_back(loop);
      const Movers own_movers = moversOf(nest_, s, s + 1);
      Extents own = inside[op];
      OperatorTiles& tiles = operators.emplace_back(OperatorTiles{.tiles = {}, .unit = phase.unit[op]});
      int own_level = level;
      for (Counts& counts : phase.own[op]) {
        if (own_level == 0) fillUnit(counts, loops, own, s, tiles.unit);
        auto cut = loopsOf(counts, own_level == 0 ? loops : outer, own, fanOut(own_level));
        if (!cut) return std::nullopt;
        useOrderOfSpace(*cut, own_movers);
        tiles.tiles.push_back(*std::move(cut));
        --own_level;
      }
    }
    return space_.tree(shared, operators);
  }

  /// The logarithm of the score, larger for trees that exceed a limit; none if the tree is not valid.
  std::optional<double> price(std::vector<PhaseCounts>& phases) {
    v1::Schedule tree;
    for (size_t phase = 0; phase < phases.size(); ++phase) {
      auto made = treeOf(phases[phase], joins_[phase]);
      if (!made) return std::nullopt;
      *tree.add_phases() = *std::move(made);
    }
    auto cost = analyzeDataflow(nest_, tree, machine_);
    if (!cost.ok()) return std::nullopt;
    const double score = scoreOf(valueOf(*cost), options_.objective);
    double excess = 1;
    if (!options_.restriction.ignore_limits) {
      for (size_t level = 0; level < cost->levels.size(); ++level) {
        const cost::Machine::Memory& memory = machine_.memories[level];
        const auto used = static_cast<double>(cost->levels[level].footprint_bytes);
        if (memory.capacity_bytes > 0) excess *= std::max(1.0, used / static_cast<double>(memory.capacity_bytes));
        excess *= std::max(1.0, static_cast<double>(cost->levels[level].units) / static_cast<double>(memory.instances));
      }
      if (excess == 1 && !cost->violations.empty()) excess = 2;
    }
    if (excess == 1 && (!best_ || score < best_->score))
      best_ = Found{.tree = std::move(tree), .cost = *std::move(cost), .score = score};
    return std::log(std::max(score, std::numeric_limits<double>::min())) + kExcessPower * std::log(excess);
  }

  const loopnest::Nest& nest_;
  const cost::Machine& machine_;
  const AnnealingOptions& options_;
  PhaseSpace space_;
  const std::vector<bool> windows_;
  const size_t number_;
  std::mt19937_64 random_;
  std::vector<PhaseCounts> phases_;
  std::vector<v1::Tile::Join> joins_;
  double energy_ = std::numeric_limits<double>::infinity();
  std::optional<Found> best_;
};

/// Divisions of the operators into phases: all of them for few operators, otherwise one phase, one for each operator,
/// and all divisions in two.
std::vector<std::vector<int>> divisions(int statements, const Restriction& restriction) {
  std::vector<std::vector<int>> all;
  if (!restriction.phase_ends.empty()) {
    std::vector<int> ends = restriction.phase_ends;
    ends.push_back(statements);
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::erase_if(ends, [&](int end) { return end <= 0 || end > statements; });
    return {ends};
  }
  constexpr int kFewStatements = 4;
  const uint32_t masks = uint32_t{1} << std::min(statements - 1, kFewStatements);
  if (statements <= kFewStatements) {
    for (uint32_t mask = 0; mask < masks; ++mask) {
      std::vector<int>& ends = all.emplace_back();
      for (int s = 1; s < statements; ++s)
        if ((mask >> (s - 1) & 1) != 0) ends.push_back(s);
      ends.push_back(statements);
    }
    return all;
  }
  all.push_back({statements});
  for (int middle = 1; middle < statements; ++middle) all.push_back({middle, statements});
  all.emplace_back(static_cast<size_t>(statements));
  std::iota(all.back().begin(), all.back().end(), 1);
  return all;
}

std::vector<Skeleton> skeletonsOf(const loopnest::Nest& nest, const cost::Machine& machine,
                                  const Restriction& restriction) {
  std::vector<v1::Tile::Join> joins = restriction.joins;
  if (joins.empty()) joins = {v1::Tile::SHAR, v1::Tile::PIPE, v1::Tile::SEQ};
  std::vector<Skeleton> all;
  const int statements = static_cast<int>(nest.statements.size());
  for (const std::vector<int>& ends : divisions(statements, restriction)) {
    const bool alone = ends.size() == static_cast<size_t>(statements);
    for (int split = 1; split < static_cast<int>(machine.memories.size()); ++split) {
      for (const v1::Tile::Join join : joins) all.push_back({.ends = ends, .split = split, .join = join});
      if (alone) break;
    }
    if (alone) all.resize(all.size() - joins.size() + 1);  // nothing is joined
  }
  return all;
}

}  // namespace

std::optional<Found> searchByAnnealing(const loopnest::Nest& nest, const cost::Machine& machine,
                                       const AnnealingOptions& options) {
  std::vector<std::unique_ptr<Chain>> chains;
  for (const Skeleton& skeleton : skeletonsOf(nest, machine, options.restriction))
    chains.push_back(std::make_unique<Chain>(nest, machine, options, skeleton, chains.size()));
  double hottest = kHottest;
  std::optional<Found> best;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t proposals = options.proposals / kRounds / static_cast<int64_t>(chains.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t chain = next++; chain < chains.size(); chain = next++) chains[chain]->run(proposals, hottest);
    };
    std::vector<std::thread> threads;
    for (int thread = 1; thread < options.threads; ++thread) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    const double before = best ? best->score : std::numeric_limits<double>::infinity();
    for (const auto& chain : chains)
      if (chain->best() && (!best || chain->best()->score < best->score)) best = chain->best();
    if (best && best->score < before) options.better(*best);
    std::ranges::sort(chains, {}, [](const auto& chain) { return std::pair(chain->energy(), chain->number()); });
    chains.resize(std::max<size_t>(1, chains.size() / 3));
    hottest /= 2;
  }
  return best;
}

}  // namespace tessera::compiler::dataflow_search
