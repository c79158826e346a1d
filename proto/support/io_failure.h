#pragma once

#include <string>

#include "absl/status/status.h"

namespace tessera {

/// Returns a WORKER_FAULT: the system refused `what` ("cannot write PATH") with errno value `error_number`. The machine
/// is at fault (its disk is full or broken), and the task may succeed elsewhere.
absl::Status ioFailure(const std::string& what, int error_number);

}  // namespace tessera
