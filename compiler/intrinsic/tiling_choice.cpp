#include "compiler/intrinsic/tiling_choice.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

/// `tiling` with twice the blocks of dimension `d` at level `l`, and at outer levels as many as that requires.
Tiling doubled(Tiling tiling, size_t l, size_t d, int64_t extent) {
  const int64_t wanted = std::min(2 * tiling[l][d], extent);
  for (size_t outer = l; outer + 1 < tiling.size(); ++outer) tiling[outer][d] = std::max(tiling[outer][d], wanted);
  return tiling;
}

}  // namespace

absl::StatusOr<Choice> tiled(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                             const v1::Target& target) {
  TESSERA_ASSIGN_OR_RETURN(PhysicalMapping mapping, physicalMapping(software, intrinsic, matching, target));
  const std::vector<int64_t> extents = dimensionsOf(software, mapping);
  const MappingCostModel model(software, intrinsic, mapping, target);
  Tiling tiling(model.stages().size(), std::vector<int64_t>(extents.size(), 1));
  tiling.back() = extents;
  absl::StatusOr<Price> best = model.of(tiling);
  if (!best.ok()) return best.status();
  constexpr int kMaxSteps = 512;
  bool better = true;
  // Steepest descent: of all doublings, the one with the lowest cost, until none improves.
  for (int step = 0; better && step < kMaxSteps; ++step) {
    better = false;
    Tiling next;
    for (size_t l = 0; l + 1 < tiling.size(); ++l) {
      for (size_t d = 0; d < extents.size(); ++d) {
        if (tiling[l][d] >= extents[d]) continue;
        Tiling candidate = doubled(tiling, l, d, extents[d]);
        absl::StatusOr<Price> price = model.of(candidate);
        if (!price.ok() || price->cycles >= best->cycles) continue;
        best = std::move(price);
        next = std::move(candidate);
        better = true;
      }
    }
    if (better) tiling = std::move(next);
  }
  return Choice{intrinsic, software, matching, std::move(mapping), std::move(tiling), *std::move(best)};
}

void sortByCost(std::vector<Choice>& choices) {
  std::vector<size_t> order(choices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(choices[a].price.cycles, a) < std::tie(choices[b].price.cycles, b);
  });
  std::vector<Choice> sorted;
  for (size_t position : order) sorted.push_back(std::move(choices[position]));
  choices = std::move(sorted);
}

}  // namespace tessera::compiler::intrinsic
