#include "compiler/graph/plan/memory_plan.h"

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
  int64_t arena_bytes = 0;
};

/// Best fit in the given order: each tensor takes the tightest gap between those already placed that are
/// alive together with it, or the space above them.
Placement place(const std::vector<Lifetime>& lifetimes, const std::vector<int>& order) {
  int last_step = 0;
  for (const Lifetime& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last_step);
  // Tensors by the steps they are alive in, so that neighbours are found without scanning all tensors.
  std::vector<std::vector<int>> alive(last_step + 1);
  Placement placement{std::vector<int64_t>(lifetimes.size(), 0), 0};
  std::vector<int> seen(lifetimes.size(), -1);
  std::vector<int> neighbours;
  for (int index : order) {
    const Lifetime& lifetime = lifetimes[index];
    const int64_t size = alignUp(lifetime.size_bytes);
    neighbours.clear();
    for (int step = lifetime.first_step; step <= lifetime.last_step; ++step) {
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
      if (gap >= size && gap < best_gap) {
        best_gap = gap;
        best_offset = top;
      }
      top = std::max(top, placement.offsets[other] + alignUp(lifetimes[other].size_bytes));
    }
    const int64_t offset = best_offset >= 0 ? best_offset : top;
    placement.offsets[index] = offset;
    placement.arena_bytes = std::max(placement.arena_bytes, offset + size);
    for (int step = lifetime.first_step; step <= lifetime.last_step; ++step) alive[step].push_back(index);
  }
  return placement;
}

int64_t peakLive(const std::vector<Lifetime>& lifetimes) {
  int last_step = -1;
  for (const Lifetime& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last_step);
  std::vector<int64_t> change(last_step + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    change[lifetime.first_step] += alignUp(lifetime.size_bytes);
    change[lifetime.last_step + 1] -= alignUp(lifetime.size_bytes);
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (int64_t delta : change) peak = std::max(peak, live += delta);
  return peak;
}

}  // namespace

MemoryPlan planMemory(const std::vector<Lifetime>& lifetimes) {
  MemoryPlan plan;
  if (lifetimes.empty()) return plan;
  plan.peak_live_bytes = peakLive(lifetimes);

  std::vector<int> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::vector<int> by_length = by_size;
  std::vector<int> by_start = by_size;
  // The index decides between equals: sorting must not depend on the library's algorithm.
  std::sort(by_size.begin(), by_size.end(), [&](int a, int b) {
    return std::pair(-lifetimes[a].size_bytes, a) < std::pair(-lifetimes[b].size_bytes, b);
  });
  auto length = [&](int index) { return lifetimes[index].last_step - lifetimes[index].first_step; };
  std::sort(by_length.begin(), by_length.end(), [&](int a, int b) {
    return std::tuple(-length(a), -lifetimes[a].size_bytes, a) < std::tuple(-length(b), -lifetimes[b].size_bytes, b);
  });
  std::sort(by_start.begin(), by_start.end(), [&](int a, int b) {
    return std::pair(lifetimes[a].first_step, a) < std::pair(lifetimes[b].first_step, b);
  });

  plan.arena_bytes = std::numeric_limits<int64_t>::max();
  for (const std::vector<int>* order : {&by_size, &by_length, &by_start}) {
    Placement placement = place(lifetimes, *order);
    if (placement.arena_bytes >= plan.arena_bytes) continue;
    plan.arena_bytes = placement.arena_bytes;
    plan.offsets = std::move(placement.offsets);
  }
  return plan;
}

}  // namespace tessera::compiler
