#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// A digit of an iteration as fragments are described by: iteration / divisor % values.
struct Digit {
  std::string iteration;
  int64_t divisor = 1;
  int64_t values = 0;  ///< 0: all that are left
};

/// "i", "i % 8", "r / 2 % 4". Fails with INVALID_ARGUMENT saying what is accepted.
absl::StatusOr<Digit> parseDigit(const std::string& text);

}  // namespace tessera::compiler
