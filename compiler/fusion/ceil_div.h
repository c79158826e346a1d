#pragma once

#include <cstdint>

namespace tessera::compiler {

/// a / b rounded up: blocks of b that cover a. Neither is negative, b is not 0.
constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tessera::compiler
