#pragma once

#include "absl/status/status.h"
#include "server/scheduler/step.h"
#include "tessera/v1/storage.pb.h"

namespace tessera::server {

/// Files one tuning record per kernel of a finished PROFILE task, in mode "profile".
///
/// tesserad reads no plan, so `workload_hash` is the kernel's symbol; the plan inside the artifact maps it
/// to the workload. A worker reports the median of each kernel alone, so `times_ms` stays empty.
absl::Status fileProfileRecords(Step& step, const v1::Action& action, const v1::Task& task);

}  // namespace tessera::server
