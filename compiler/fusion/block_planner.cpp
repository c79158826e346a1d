#include "compiler/fusion/block_planner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/fusion/ceil_div.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::fusion {
namespace {

constexpr size_t kMaxCombinations = 128;

/// Computes volume and memory of integer blocks without constructing a Movement.
double volumeOf(const Structure& structure, const Tiles& tiles) {
  double volume = 0;
  for (const Traffic& traffic : structure.traffic) volume += structure.moved(traffic, tiles);
  return volume;
}
double memoryOf(const Structure& structure, const Tiles& tiles) {
  double memory = 0;
  for (const std::vector<int>& operands : structure.resident) {
    double held = 0;
    for (int tensor : operands) held += structure.bytes(tensor, tiles);
    memory = std::max(memory, held);
  }
  return memory;
}

/// Rounds a real solution: starts from the block sizes below it and the even splits around it, then moves to
/// neighbouring even splits while that improves.
class Rounding {
 public:
  Rounding(const Structure& structure, double capacity, const Bounds& bounds)
      : structure_(structure), loops_(structure.chain->loops), capacity_(capacity), bounds_(bounds) {}

  /// Finds integer blocks from the real solution; false if not even the smallest blocks fit.
  bool round(const RealSolution& real) {
    std::vector<Tiles> candidates;
    for (size_t i = 0; i < loops_.size(); ++i) {
      const auto t = static_cast<int64_t>(std::floor(real.tiles[i] + 1e-6));
      Tiles list{fit(i, t)};
      // A tile at its lower bound leaves the memory to other tiles, so only larger tiles get alternatives.
      if (real.tiles[i] > bounds_.lower[i] * 1.02) {
        const int64_t n = ceilDiv(loops_[i].extent, std::max<int64_t>(1, t));
        for (int64_t blocks = std::max<int64_t>(1, n - 1); blocks <= n + 1; ++blocks)
          list.push_back(fit(i, ceilDiv(loops_[i].extent, blocks)));
      }
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
      candidates.push_back(std::move(list));
    }
    // Limits the combinations; the improvement steps below reach the others.
    size_t combinations = 1;
    for (Tiles& list : candidates) {
      if (combinations * list.size() > kMaxCombinations) list.resize(1);
      combinations *= list.size();
    }
    Tiles tiles(loops_.size());
    product(candidates, 0, tiles);
    // The smallest blocks are a candidate too: if they do not fit, nothing does.
    Tiles smallest;
    for (size_t i = 0; i < loops_.size(); ++i) smallest.push_back(fit(i, 1));
    consider(smallest);
    if (best.empty()) return false;
    while (improve()) {
    }
    return true;
  }

  Tiles best;
  double volume = INFINITY, memory = INFINITY;

 private:
  /// Returns the largest block size at most `tile` that bounds and multiples allow.
  int64_t fit(size_t i, int64_t tile) const {
    const Loop& loop = loops_[i];
    const auto lower = static_cast<int64_t>(std::ceil(bounds_.lower[i])),
               upper = static_cast<int64_t>(bounds_.upper[i]);
    tile = std::clamp(tile, lower, upper);
    if (tile < loop.extent && loop.multiple > 1) tile = std::max(tile / loop.multiple, int64_t{1}) * loop.multiple;
    return std::clamp(tile, std::min(lower, upper), upper);
  }

  void consider(const Tiles& tiles) {
    const double held = memoryOf(structure_, tiles);
    if (held > capacity_) return;
    const double moved = volumeOf(structure_, tiles);
    if (moved < volume * (1 - 1e-12) || (moved <= volume && held < memory)) {
      best = tiles;
      volume = moved;
      memory = held;
    }
  }

  void product(const std::vector<Tiles>& candidates, size_t loop, Tiles& tiles) {
    if (loop == candidates.size()) return consider(tiles);
    for (int64_t tile : candidates[loop]) {
      tiles[loop] = tile;
      product(candidates, loop + 1, tiles);
    }
  }

  /// Returns the even splits next to `tile`, larger and smaller ones.
  Tiles neighbours(size_t i, int64_t tile) const {
    if (bounds_.lower[i] >= bounds_.upper[i]) return {tile};
    Tiles list{tile};
    const int64_t extent = loops_[i].extent, n = ceilDiv(extent, tile);
    for (int64_t blocks = n - 1; blocks >= 1; --blocks)
      if (const int64_t larger = fit(i, ceilDiv(extent, blocks)); larger > tile) {
        list.push_back(larger);
        break;
      }
    for (int64_t blocks = n; blocks <= extent; blocks += std::max<int64_t>(1, blocks / 16))
      if (const int64_t smaller = fit(i, ceilDiv(extent, blocks)); smaller < tile) {
        list.push_back(smaller);
        break;
      }
    return list;
  }

  /// Tries all neighbours of the best blocks in one loop and in two loops at once, because increasing one tile is often
  /// possible only if another one decreases. Returns whether volume or memory became smaller.
  bool improve() {
    const double before_volume = volume, before_memory = memory;
    const Tiles from = best;
    for (size_t i = 0; i < loops_.size(); ++i)
      for (int64_t first : neighbours(i, from[i])) {
        Tiles tiles = from;
        tiles[i] = first;
        consider(tiles);
        for (size_t j = i + 1; j < loops_.size(); ++j)
          for (int64_t second : neighbours(j, from[j])) {
            tiles[j] = second;
            consider(tiles);
            tiles[j] = from[j];
          }
      }
    return volume < before_volume || (volume == before_volume && memory < before_memory);
  }

  const Structure& structure_;
  const std::vector<Loop>& loops_;
  double capacity_;
  const Bounds& bounds_;
};

/// The bounds of the chain, narrowed by those of the options.
Bounds boundsFor(const Chain& chain, const BlockOptions& options) {
  Bounds bounds = boundsOf(chain);
  for (size_t i = 0; i < chain.loops.size(); ++i) {
    if (!options.upper.empty()) bounds.upper[i] = std::min(bounds.upper[i], static_cast<double>(options.upper[i]));
    if (!options.lower.empty()) bounds.lower[i] = std::max(bounds.lower[i], static_cast<double>(options.lower[i]));
    bounds.lower[i] = std::min(bounds.lower[i], bounds.upper[i]);
  }
  return bounds;
}

/// One order, or one of many with the same structure, and its real minimum.
struct Candidate {
  Order order;
  Structure structure;
  Bounds bounds;
  RealSolution real;
};

/// Minimizes every candidate in real numbers, then rounds them in ascending order of their minimum.
absl::StatusOr<BlockPlan> best(const Chain& chain, std::vector<Candidate> candidates, double capacity,
                               const BlockOptions& options) {
  for (Candidate& candidate : candidates) {
    auto real = minimizeVolume(candidate.structure, capacity, candidate.bounds);
    if (!real) {
      candidate.real.volume_bytes = INFINITY;
      continue;
    }
    candidate.real = std::move(*real);
  }
  // Equal volumes keep the order of the permutations, so that equal chains get equal plans.
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return std::pair(c.real.volume_bytes, c.order); });
  BlockPlan plan;
  double volume = INFINITY, memory = INFINITY;
  for (const Candidate& candidate : candidates) {
    // The real minimum is a lower bound for integer blocks (except for windows, whose problem is not quite convex), so
    // the remaining candidates cannot be better.
    if (!std::isfinite(candidate.real.volume_bytes) || candidate.real.volume_bytes > volume * (1 + 1e-9)) break;
    Rounding rounding(candidate.structure, capacity, candidate.bounds);
    if (!rounding.round(candidate.real)) continue;
    if (rounding.volume < volume || (rounding.volume == volume && rounding.memory < memory)) {
      volume = rounding.volume;
      memory = rounding.memory;
      plan.order = candidate.order;
      plan.tiles = rounding.best;
      plan.real = candidate.real;
    }
  }
  // For the error message: the least memory that any order needs with its smallest blocks.
  if (plan.tiles.empty()) {
    double least = INFINITY;
    for (const Candidate& candidate : candidates) {
      Tiles smallest;
      for (double tile : candidate.bounds.lower) smallest.push_back(static_cast<int64_t>(tile));
      least = std::min(least, memoryOf(candidate.structure, smallest));
    }
    return absl::ResourceExhaustedError(absl::StrCat("chain '", chain.name, "': the smallest blocks need ", least,
                                                     " bytes, the memory holds ", capacity));
  }
  plan.structures = static_cast<int>(candidates.size());
  plan.movement = analyse(chain, plan.order, plan.tiles, options.intermediates);
  return plan;
}

}  // namespace

absl::StatusOr<BlockPlan> planBlocksFor(const Chain& chain, const Order& order, double capacity,
                                        const BlockOptions& options) {
  TESSERA_RETURN_IF_ERROR(validateChain(chain));
  std::vector<Candidate> one;
  one.push_back({order, Structure(chain, order, options.intermediates), boundsFor(chain, options), {}});
  auto plan = best(chain, std::move(one), capacity, options);
  if (plan.ok()) plan->orders = 1;
  return plan;
}

absl::StatusOr<BlockPlan> planBlocks(const Chain& chain, double capacity, const BlockOptions& options) {
  TESSERA_RETURN_IF_ERROR(validateChain(chain));
  // Loops that every tensor uses run outermost: they never cause a tensor to move twice.
  Order outer = options.outside, loops;
  for (int loop : orderedLoops(chain)) {
    if (std::ranges::count(options.outside, loop) > 0) continue;
    bool everywhere = true;
    for (size_t t = 0; t < chain.accesses.size(); ++t) everywhere &= chain.uses(static_cast<int>(t), loop);
    (everywhere ? outer : loops).push_back(loop);
  }
  if (loops.size() > 6)
    return absl::InvalidArgumentError(
        absl::StrCat("chain '", chain.name, "' has ", loops.size(), " loops to order, at most 6 are accepted"));
  // A loop of one block never replaces a block, at any position. So each set of loops taken whole needs only the orders
  // of the other loops.
  const Bounds free = boundsFor(chain, options);
  std::vector<Candidate> candidates;
  int orders = 0;
  // The bit set `whole` runs over all subsets of loops that are taken in one block.
  for (unsigned whole = 0; whole < 1U << loops.size(); ++whole) {
    Bounds bounds = free;
    Order rest;
    bool possible = true;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (whole >> i & 1) {
        const auto extent = static_cast<double>(chain.loops[loops[i]].extent);
        possible = possible && bounds.upper[loops[i]] >= extent;
        bounds.lower[loops[i]] = extent;
      } else {
        rest.push_back(loops[i]);
      }
    }
    if (!possible) continue;
    // Orders with equal structure have equal volumes for all block sizes, so one of them suffices.
    const size_t first = candidates.size();
    std::ranges::sort(rest);
    do {
      if (whole == 0) ++orders;
      Order order = outer;
      order.insert(order.end(), rest.begin(), rest.end());
      Structure structure(chain, order, options.intermediates);
      const bool known = std::any_of(candidates.begin() + static_cast<int64_t>(first), candidates.end(),
                                     [&](const Candidate& c) { return c.structure.sameAs(structure); });
      if (!known) candidates.push_back({std::move(order), std::move(structure), bounds, {}});
    } while (std::next_permutation(rest.begin(), rest.end()));
  }
  auto plan = best(chain, std::move(candidates), capacity, options);
  if (plan.ok()) plan->orders = orders;
  return plan;
}

}  // namespace tessera::compiler::fusion
