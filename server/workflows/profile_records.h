#pragma once

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

namespace tessera::server {

/// Stores one tuning record for each kernel of a finished PROFILE task, with mode "profile": timed, but not compared.
absl::Status fileProfileRecords(QueueTransaction& queue, const v1::Action& action, const v1::Task& task);

}  // namespace tessera::server
