#include "compiler/ir/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace tessera::compiler {
namespace {

constexpr int64_t kAlignment = 64;

int64_t alignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Which of the gaps that are large enough a buffer takes; above all others where there is none.
enum class Gap { kLowest, kTightest };

/// Each buffer, in the given order, in a gap between those already placed that are alive together with it.
Placement place(const std::vector<Lifetime>& lifetimes, const std::vector<int>& order, Gap wanted) {
  int last_step = 0;
  for (const Lifetime& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last);
  // Buffers by the steps they are alive in, so that neighbours are found without scanning all of them.
  std::vector<std::vector<int>> alive(last_step + 1);
  Placement placement{std::vector<int64_t>(lifetimes.size(), 0), 0};
  std::vector<int> seen(lifetimes.size(), -1);
  std::vector<int> neighbours;
  for (int index : order) {
    const Lifetime& lifetime = lifetimes[index];
    const int64_t size = alignUp(lifetime.bytes);
    neighbours.clear();
    for (int step = lifetime.first; step <= lifetime.last; ++step) {
      for (int other : alive[step]) {
        if (seen[other] == index) continue;
        seen[other] = index;
        neighbours.push_back(other);
      }
    }
    std::sort(neighbours.begin(), neighbours.end(),
              [&](int a, int b) { return std::pair(placement.offsets[a], a) < std::pair(placement.offsets[b], b); });
    int64_t top = 0;
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    for (int other : neighbours) {
      const int64_t gap = placement.offsets[other] - top;
      if (gap >= size && (wanted == Gap::kTightest ? gap < best_gap : best_offset < 0)) {
        best_gap = gap;
        best_offset = top;
      }
      top = std::max(top, placement.offsets[other] + alignUp(lifetimes[other].bytes));
    }
    const int64_t offset = best_offset >= 0 ? best_offset : top;
    placement.offsets[index] = offset;
    placement.bytes = std::max(placement.bytes, offset + size);
    for (int step = lifetime.first; step <= lifetime.last; ++step) alive[step].push_back(index);
  }
  return placement;
}

int64_t peakLive(const std::vector<Lifetime>& lifetimes) {
  int last_step = -1;
  for (const Lifetime& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last);
  std::vector<int64_t> change(last_step + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    change[lifetime.first] += alignUp(lifetime.bytes);
    change[lifetime.last + 1] -= alignUp(lifetime.bytes);
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (int64_t delta : change) peak = std::max(peak, live += delta);
  return peak;
}

/// All lifetimes by ascending key. The index decides between equals: sorting must not depend on the library's
/// algorithm.
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
  const auto by_size = orderBy(lifetimes, [](const Lifetime& each) { return -each.bytes; });
  if (packing == Packing::kOnce) {
    Placement placement = place(lifetimes, by_size, Gap::kLowest);
    arena.bytes = placement.bytes;
    arena.offsets = std::move(placement.offsets);
    return arena;
  }
  const auto by_length = orderBy(
      lifetimes, [](const Lifetime& each) { return std::pair<int64_t, int64_t>(each.first - each.last, -each.bytes); });
  const auto by_start = orderBy(lifetimes, [](const Lifetime& each) { return each.first; });
  arena.bytes = std::numeric_limits<int64_t>::max();
  for (const std::vector<int>* order : {&by_size, &by_length, &by_start}) {
    Placement placement = place(lifetimes, *order, Gap::kTightest);
    if (placement.bytes >= arena.bytes) continue;
    arena.bytes = placement.bytes;
    arena.offsets = std::move(placement.offsets);
  }
  return arena;
}

}  // namespace tessera::compiler
