#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::worker {

/// Runs `BINARY --describe` and returns its host, compiler_version and operators. The worker links no compiler, and
/// results are stored under the version of the task program.
absl::StatusOr<v1::RegisterWorkerRequest> describeHost(const std::string& task_binary);

}  // namespace tessera::worker
