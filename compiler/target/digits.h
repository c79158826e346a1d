#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// A digit of an iteration number: iteration / divisor % values. A fragment is the part of an instruction's operand
/// that one thread holds in its registers; descriptions of fragments (v1::Intrinsic::ThreadGroup) use digits to say
/// which iterations of the instruction's loops belong to which thread.
struct Digit {
  std::string iteration;
  int64_t divisor = 1;
  int64_t values = 0;  ///< 0: no modulo, all remaining values
};

/// "i", "i % 8", "r / 2 % 4". Fails with INVALID_ARGUMENT naming the accepted syntax.
absl::StatusOr<Digit> parseDigit(const std::string& text);

}  // namespace tessera::compiler
