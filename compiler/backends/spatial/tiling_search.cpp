#include "compiler/backends/spatial/tiling_search.h"

#include <algorithm>
#include <map>

namespace tessera::compiler::simulator {
namespace {

using intrinsic::Choice;
using intrinsic::Tiling;

class TilingSearch {
 public:
  TilingSearch(const Choice& choice, const v1::Target& target)
      : choice_(choice), model_(choice.software, choice.intrinsic, choice.mapping, target) {
    for (size_t i = 0; i < choice.mapping.groups.size(); ++i)
      sum_.push_back(choice.intrinsic.iterations(static_cast<int>(i)).reduction());
    for (const int loop : choice.mapping.outer) sum_.push_back(choice.software.isReduction(loop));
  }

  std::vector<Choice> run(size_t most) {
    descend(choice_.tiling);
    for (const Order order : {Order::kSums, Order::kParallel, Order::kBoth}) descend(filled(order));
    std::vector<std::pair<double, const Tiling*>> sorted;
    for (const auto& [tiling, cycles] : known_)
      if (cycles >= 0) sorted.emplace_back(cycles, &tiling);
    const size_t count = std::min(most, sorted.size());
    // Equal costs are ordered by the tilings themselves.
    std::partial_sort(
        sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count), sorted.end(),
        [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : *a.second < *b.second; });
    std::vector<Choice> choices;
    for (size_t i = 0; i < count; ++i) {
      Choice& next = choices.emplace_back(choice_);
      next.tiling = *sorted[i].second;
      if (auto price = model_.of(next.tiling); price.ok()) next.price = *std::move(price);
    }
    return choices;
  }

 private:
  enum class Order { kSums, kParallel, kBoth };

  /// Predicted cycles; negative if the tiles do not fit.
  double costOf(const Tiling& tiling) {
    const auto [found, fresh] = known_.try_emplace(tiling, -1);
    if (fresh) {
      if (const auto price = model_.of(tiling); price.ok()) found->second = price->cycles;
    }
    return found->second;
  }

  /// One block at each level, then doubled from the outermost level inwards while the tiles fit.
  Tiling filled(Order order) {
    Tiling tiling = choice_.tiling;
    for (size_t l = 0; l + 1 < tiling.size(); ++l) std::ranges::fill(tiling[l], 1);
    for (size_t l = tiling.size() - 1; l-- > 0;) {
      for (const bool sums : {order != Order::kParallel, order == Order::kParallel}) {
        for (bool more = true; more;) {
          more = false;
          for (size_t d = 0; d < sum_.size(); ++d) {
            if (order != Order::kBoth && sum_[d] != sums) continue;
            if (tiling[l][d] >= tiling[l + 1][d] && l + 2 < tiling.size()) continue;
            if (tiling[l][d] >= tiling.back()[d]) continue;
            Tiling next = withBlocks(tiling, l, d, 2 * tiling[l][d]);
            if (costOf(next) < 0) continue;
            tiling = std::move(next);
            more = true;
          }
        }
      }
    }
    return tiling;
  }

  void descend(Tiling tiling) {
    double best = costOf(tiling);
    if (best < 0) return;
    constexpr int kMaxSteps = 64;
    for (int step = 0; step < kMaxSteps; ++step) {
      Tiling next;
      const auto consider = [&](Tiling candidate) {
        const double cycles = costOf(candidate);
        if (cycles < 0 || cycles >= best) return;
        best = cycles;
        next = std::move(candidate);
      };
      for (size_t l = 0; l + 1 < tiling.size(); ++l) {
        for (size_t d = 0; d < sum_.size(); ++d) {
          if (tiling.back()[d] == 1) continue;
          const Tiling doubled = withBlocks(tiling, l, d, 2 * tiling[l][d]);
          consider(doubled);
          consider(withBlocks(tiling, l, d, (tiling[l][d] + 1) / 2));
          for (size_t other = 0; other < sum_.size(); ++other) {
            if (other == d || tiling[l][other] == 1) continue;
            consider(withBlocks(doubled, l, other, (tiling[l][other] + 1) / 2));
          }
        }
      }
      if (next.empty()) return;
      tiling = std::move(next);
    }
  }

  const Choice& choice_;
  const intrinsic::MappingCostModel model_;
  std::vector<bool> sum_;           // per dimension
  std::map<Tiling, double> known_;  // predicted cycles
};

}  // namespace

Tiling withBlocks(Tiling tiling, size_t l, size_t d, int64_t blocks) {
  blocks = std::clamp<int64_t>(blocks, 1, tiling.back()[d]);
  tiling[l][d] = blocks;
  for (size_t outer = l + 1; outer + 1 < tiling.size(); ++outer) tiling[outer][d] = std::max(tiling[outer][d], blocks);
  for (size_t inner = 0; inner < l; ++inner) tiling[inner][d] = std::min(tiling[inner][d], blocks);
  return tiling;
}

std::vector<Choice> tilingsOf(const Choice& choice, const v1::Target& target, size_t most) {
  return TilingSearch(choice, target).run(most);
}

}  // namespace tessera::compiler::simulator
