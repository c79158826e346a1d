#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

/// Random draws that are equal on every machine, unlike the standard's distributions.
namespace tessera::compiler::search {

/// Uniform in [0, count).
inline size_t below(std::mt19937_64& random, size_t count) { return random() % count; }
/// Uniform in [0, 1).
inline double share(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// The index in [0, count) with the greatest value, ties broken at random; count is at least one.
template <typename ValueOf>
size_t greatest(std::mt19937_64& random, size_t count, const ValueOf& value_of) {
  std::vector<size_t> ties;
  decltype(value_of(0)) best{};
  for (size_t at = 0; at < count; ++at) {
    const auto value = value_of(at);
    if (!ties.empty() && value > best) ties.clear();
    if (ties.empty()) best = value;
    if (value == best) ties.push_back(at);
  }
  return ties[below(random, ties.size())];
}

}  // namespace tessera::compiler::search
