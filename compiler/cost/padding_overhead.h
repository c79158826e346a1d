#pragma once

#include <cstdint>

namespace tessera::compiler {

/// Returns the average work of an execution in slices of `tile` points, relative to the work that it needs. An
/// execution computes every slice that it begins whole, the last one only up to `extent`. All sizes from `fewest` to
/// `extent` are equally likely. Requires 1 <= fewest <= extent and tile >= 1.
constexpr double paddingOverhead(int64_t tile, int64_t fewest, int64_t extent) {
  const auto count = [](int64_t from, int64_t to) { return static_cast<double>(to - from + 1); };
  const auto sum = [&](int64_t from, int64_t to) { return count(from, to) * static_cast<double>(from + to) / 2; };
  double computed = 0;
  // Executions that end in the same slice compute the same amount: first those that end in the first slice, then those
  // in the slices between, then those in the last one.
  const int64_t first = (fewest - 1) / tile, last = (extent - 1) / tile;
  if (first == last) return static_cast<double>(extent) * count(fewest, extent) / sum(fewest, extent);
  computed += static_cast<double>((first + 1) * tile) * count(fewest, (first + 1) * tile);
  if (first + 1 < last) computed += static_cast<double>(tile * tile) * sum(first + 2, last);
  computed += static_cast<double>(extent) * count(last * tile + 1, extent);
  return computed / sum(fewest, extent);
}

}  // namespace tessera::compiler
