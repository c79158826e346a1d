#pragma once

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

namespace tessera::server {

/// Files one tuning record per kernel of a finished PROFILE task, in mode "profile": timed, compared with nothing.
absl::Status fileProfileRecords(Step& step, const v1::Action& action, const v1::Task& task);

}  // namespace tessera::server
