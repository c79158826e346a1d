#pragma once

#include <string>

#include "tessera/v1/worker_service.pb.h"

namespace tessera::client {

/// What a job waits for that is queued while a service has these workers, to be read behind "waits for": "a worker:
/// none is connected", "a worker with room: 2 busy, 1 draining". Says where to look further.
std::string waitsFor(const v1::ListWorkersResponse& workers);

}  // namespace tessera::client
