#pragma once

#include <string>

#include "proto/messages/failure.h"

namespace tessera::compiler {

/// A failure of the compiler itself, not of the model or the request.
inline absl::Status internalFailure(const std::string& message) {
  return failureStatus(v1::Failure::INTERNAL, message);
}

}  // namespace tessera::compiler
