#include "proto/support/median.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera {

double medianOf(absl::Span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

double relativeMad(absl::Span<const double> values) {
  const double median = medianOf(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  return median > 0 ? medianOf(distances) / median : 0;
}

double medianStandardError(double deviation, size_t count) {
  constexpr double kDeviationOfMad = 1.4826, kErrorOfMedian = 1.2533;
  return kErrorOfMedian * kDeviationOfMad * deviation / std::sqrt(static_cast<double>(count));
}

}  // namespace tessera
