#pragma once

#include "absl/status/status.h"

namespace tessera::compiler::verification {

/// Whether the status means that a step cannot be checked, and is skipped, rather than that it is wrong.
inline bool isLimit(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnimplemented || status.code() == absl::StatusCode::kResourceExhausted ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

}  // namespace tessera::compiler::verification
