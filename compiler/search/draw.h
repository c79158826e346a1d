#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

/// Draws that are the same on every machine: the standard's distributions are not.
namespace tessera::compiler::search {

/// 0 to count - 1.
inline size_t below(std::mt19937_64& random, size_t count) { return random() % count; }
/// 0 up to, but not, 1.
inline double share(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace tessera::compiler::search
