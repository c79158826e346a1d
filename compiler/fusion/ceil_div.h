#pragma once

#include <cstdint>

namespace tessera::compiler {

/// Returns a / b rounded up: the number of blocks of b that cover a. Requires a >= 0 and b > 0.
constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tessera::compiler
