#include "compiler/ir/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tessera::compiler {
namespace {

constexpr int64_t kAlignment = 64;
/// Largest number of overlapping pairs of buffers for which all orders are tried, since each order costs time per pair.
constexpr int64_t kMaxPairs = int64_t{1} << 22;

int64_t alignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// The choice among gaps that are large enough; without one, a buffer goes above all others.
enum class Gap { kLowest, kTightest };

/// Returns buffers by the first step in which they are live.
std::vector<int> inOrderOfStart(const std::vector<Lifetime>& lifetimes) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::pair(lifetimes[a].first, a) < std::pair(lifetimes[b].first, b); });
  return order;
}

/// Returns, for each buffer, those with overlapping lifetimes; nothing if these are more than `most` pairs.
std::optional<std::vector<std::vector<int>>> neighboursOf(const std::vector<Lifetime>& lifetimes, int64_t most) {
  std::vector<std::vector<int>> neighbours(lifetimes.size());
  std::vector<int> alive;
  for (int index : inOrderOfStart(lifetimes)) {
    const Lifetime& lifetime = lifetimes[index];
    if (lifetime.last < lifetime.first) continue;
    std::erase_if(alive, [&](int other) { return lifetimes[other].last < lifetime.first; });
    most -= static_cast<int64_t>(alive.size());
    if (most < 0) return std::nullopt;
    for (int other : alive) {
      neighbours[index].push_back(other);
      neighbours[other].push_back(index);
    }
    alive.push_back(index);
  }
  return neighbours;
}

/// Places each buffer, in the given order, in a gap between placed buffers with overlapping lifetimes.
Placement place(const std::vector<Lifetime>& lifetimes, const std::vector<std::vector<int>>& all,
                const std::vector<int>& order, Gap wanted) {
  Placement placement{std::vector<int64_t>(lifetimes.size(), 0), 0};
  std::vector<bool> placed(lifetimes.size(), false);
  std::vector<int> neighbours;
  for (int index : order) {
    const int64_t size = alignUp(lifetimes[index].bytes);
    neighbours.clear();
    // Only buffers that live at the same time and have a place restrict this one.
    for (int other : all[index])
      if (placed[other]) neighbours.push_back(other);
    std::sort(neighbours.begin(), neighbours.end(),
              [&](int a, int b) { return std::pair(placement.offsets[a], a) < std::pair(placement.offsets[b], b); });
    int64_t top = 0;
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    // Walks through the gaps between neighbours from the bottom up.
    for (int other : neighbours) {
      const int64_t gap = placement.offsets[other] - top;
      if (gap >= size && (wanted == Gap::kTightest ? gap < best_gap : best_offset < 0)) {
        best_gap = gap;
        best_offset = top;
      }
      top = std::max(top, placement.offsets[other] + alignUp(lifetimes[other].bytes));
    }
    // Without a gap the buffer goes above all neighbours.
    const int64_t offset = best_offset >= 0 ? best_offset : top;
    placement.offsets[index] = offset;
    placement.bytes = std::max(placement.bytes, offset + size);
    placed[index] = true;
  }
  return placement;
}

/// Places each buffer at its first step, in the tightest gap that dead buffers leave: O(n log n), for thousands of
/// overlapping lifetimes.
Placement placeInOrder(const std::vector<Lifetime>& lifetimes) {
  Placement placement{std::vector<int64_t>(lifetimes.size(), 0), 0};
  std::map<int64_t, int64_t> free;                // offset -> bytes; adjacent gaps are merged
  std::set<std::pair<int64_t, int64_t>> by_size;  // bytes, offset
  std::set<std::pair<int, int>> alive;            // last step, buffer
  const auto take = [&](std::map<int64_t, int64_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    free.erase(gap);
  };
  const auto release = [&](int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    // Merges the gap with its neighbours on both sides, so that large buffers fit again.
    auto next = free.lower_bound(offset);
    if (next != free.end() && offset + bytes == next->first) {
      bytes += next->second;
      take(next);
    }
    auto before = free.lower_bound(offset);
    if (before != free.begin() && (--before)->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      take(before);
    }
    free[offset] = bytes;
    by_size.insert({bytes, offset});
  };
  for (int index : inOrderOfStart(lifetimes)) {
    const Lifetime& lifetime = lifetimes[index];
    // Buffers that died before this step become gaps.
    while (!alive.empty() && alive.begin()->first < lifetime.first) {
      const int dead = alive.begin()->second;
      alive.erase(alive.begin());
      release(placement.offsets[dead], alignUp(lifetimes[dead].bytes));
    }
    const int64_t size = alignUp(lifetime.bytes);
    int64_t offset = placement.bytes;
    // The smallest gap that fits leaves large gaps for large buffers.
    if (const auto fits = by_size.lower_bound({size, 0}); fits != by_size.end()) {
      offset = fits->second;
    } else if (!free.empty() && free.rbegin()->first + free.rbegin()->second == placement.bytes) {
      offset = free.rbegin()->first;  // a gap at the end is extended
    }
    if (const auto gap = free.find(offset); gap != free.end()) {
      const int64_t left = gap->second - size;
      take(gap);
      if (left > 0) release(offset + size, left);
    }
    placement.offsets[index] = offset;
    placement.bytes = std::max(placement.bytes, offset + size);
    if (lifetime.last >= lifetime.first) alive.insert({lifetime.last, index});
  }
  return placement;
}

int64_t peakLive(const std::vector<Lifetime>& lifetimes) {
  int last_step = -1;
  for (const Lifetime& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last);
  std::vector<int64_t> change(last_step + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    // Adds up sizes at first steps and takes them off after last steps: the running sum is what is alive.
    change[lifetime.first] += alignUp(lifetime.bytes);
    change[lifetime.last + 1] -= alignUp(lifetime.bytes);
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (int64_t delta : change) peak = std::max(peak, live += delta);
  return peak;
}

/// Returns all lifetimes by ascending key. The index breaks ties, so that the order does not depend on the library's
/// sort.
template <typename Key>
std::vector<int> orderBy(const std::vector<Lifetime>& lifetimes, Key key) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::tuple(key(lifetimes[a]), a) < std::tuple(key(lifetimes[b]), b); });
  return order;
}

}  // namespace

Arena packArena(const std::vector<Lifetime>& lifetimes, Packing packing) {
  Arena arena;
  if (lifetimes.empty()) return arena;
  arena.peak_live_bytes = peakLive(lifetimes);
  // Too many overlapping pairs: a faster placement, which may use more memory.
  const auto neighbours = neighboursOf(lifetimes, kMaxPairs);
  if (!neighbours) {
    Placement placement = placeInOrder(lifetimes);
    arena.bytes = placement.bytes;
    arena.offsets = std::move(placement.offsets);
    return arena;
  }
  // Large buffers first: small ones fit into what is left.
  const auto by_size = orderBy(lifetimes, [](const Lifetime& each) { return -each.bytes; });
  if (packing == Packing::kOnce) {
    Placement placement = place(lifetimes, *neighbours, by_size, Gap::kLowest);
    arena.bytes = placement.bytes;
    arena.offsets = std::move(placement.offsets);
    return arena;
  }
  const auto by_length = orderBy(
      lifetimes, [](const Lifetime& each) { return std::pair<int64_t, int64_t>(each.first - each.last, -each.bytes); });
  const auto by_start = orderBy(lifetimes, [](const Lifetime& each) { return each.first; });
  arena.bytes = std::numeric_limits<int64_t>::max();
  // No order is best for all models, and each takes little time: the smallest arena wins.
  for (const std::vector<int>* order : {&by_size, &by_length, &by_start}) {
    Placement placement = place(lifetimes, *neighbours, *order, Gap::kTightest);
    if (placement.bytes >= arena.bytes) continue;
    arena.bytes = placement.bytes;
    arena.offsets = std::move(placement.offsets);
  }
  return arena;
}

}  // namespace tessera::compiler
