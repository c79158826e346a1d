#include "compiler/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::compiler {
namespace {

double medianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

double Spread::share() const {
  return median == 0 ? std::numeric_limits<double>::infinity() : deviation / std::abs(median);
}

Spread spreadOf(std::vector<double> values) {
  Spread spread;
  spread.median = medianOf(values);
  for (double& value : values) value = std::abs(value - spread.median);
  spread.deviation = medianOf(values);
  return spread;
}

}  // namespace tessera::compiler
