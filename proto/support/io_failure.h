#pragma once

#include <string>

#include "absl/status/status.h"

namespace tessera {

/// A WORKER_FAULT: the system refused `what` ("cannot write PATH") for `error_number`, an errno value. The machine is
/// at fault (its disk is full or broken), not the task, which may do well elsewhere.
absl::Status ioFailure(const std::string& what, int error_number);

}  // namespace tessera
