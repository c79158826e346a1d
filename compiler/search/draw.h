#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

/// Draws that are the same on every machine: the standard's distributions are not.
namespace tessera::compiler::search {

/// 0 to count - 1.
inline size_t below(std::mt19937_64& random, size_t count) { return random() % count; }
/// 0 up to, but not, 1.
inline double share(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// The index, of `count` of them and at least one, whose value is greatest; of equal ones any.
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
