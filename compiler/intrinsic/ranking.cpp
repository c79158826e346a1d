#include "compiler/intrinsic/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

namespace tessera::compiler::intrinsic {
namespace {

std::set<size_t> best(const std::vector<double>& costs, size_t count) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tie(costs[a], a) < std::tie(costs[b], b); });
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

double pairwiseAccuracy(const std::vector<double>& predicted, const std::vector<double>& measured, double apart) {
  double agreeing = 0, pairs = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    for (size_t j = i + 1; j < measured.size(); ++j) {
      const auto [faster, slower] = std::minmax(measured[i], measured[j]);
      if (slower <= faster * (1 + apart)) continue;
      ++pairs;
      if (predicted[i] == predicted[j]) {
        agreeing += 0.5;
      } else if ((predicted[i] < predicted[j]) == (measured[i] < measured[j])) {
        agreeing += 1;
      }
    }
  }
  return pairs == 0 ? 1 : agreeing / pairs;
}

double recallOfBest(const std::vector<double>& predicted, const std::vector<double>& measured, double share) {
  const auto count = static_cast<size_t>(std::ceil(share * static_cast<double>(measured.size())));
  if (count == 0) return 1;
  const std::set<size_t> wanted = best(measured, count), found = best(predicted, count);
  const auto hits = std::count_if(wanted.begin(), wanted.end(), [&](size_t i) { return found.contains(i); });
  return static_cast<double>(hits) / static_cast<double>(count);
}

}  // namespace tessera::compiler::intrinsic
