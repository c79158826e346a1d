#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::worker {

/// Asks the task binary (`BINARY --describe`) what it is: fills host, compiler_version and operators. The worker
/// itself links no compiler, and it is the task binary's version under which results are filed.
absl::StatusOr<v1::RegisterWorkerRequest> describeHost(const std::string& task_binary);

}  // namespace tessera::worker
