#pragma once

#include <string>

#include "tessera/v1/worker_service.pb.h"

namespace tessera::client {

/// Returns what a queued job waits for, given the service's workers. Continues the phrase "waits for": "a worker: none
/// is connected", "a worker with a free slot: 2 busy, 1 draining". Names the command with details.
std::string describeWait(const v1::ListWorkersResponse& workers);

}  // namespace tessera::client
