#pragma once

#include <algorithm>
#include <cstdint>

/// How a grid's parts are distributed: of n parts, core c of `cores` gets parts [n * c / cores, n * (c + 1) / cores).
namespace tessera::compiler {

/// Load imbalance: the largest work of a core divided by the average; at least 1. `before(i)` is the work of the first
/// i parts.
template <typename Before>
double loadImbalance(int64_t parts, int64_t cores, const Before& before) {
  double most = 0, until = 0;
  for (int64_t core = 1; core <= cores; ++core) {
    const double first = until;
    until = static_cast<double>(before(parts * core / cores));
    most = std::max(most, until - first);
  }
  return most * static_cast<double>(cores) / until;
}

/// The same for parts of equal work.
inline double loadImbalance(int64_t parts, int64_t cores) {
  const int64_t rounds = (parts + cores - 1) / cores;
  return static_cast<double>(rounds * cores) / static_cast<double>(parts);
}

}  // namespace tessera::compiler
