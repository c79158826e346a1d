#pragma once

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Jobs of a single task, whose result is the job's: EXECUTE and PROFILE run an artifact, ANALYZE reads a model.
namespace tessera::server {

/// Adds the task of a new action whose job runs an artifact.
absl::Status beginRun(QueueTransaction& queue, const v1::Action& action, const v1::Job& job);

/// Adds the task of a new action whose job analyzes a model. Its result is not cached: it costs less than a
/// compilation, and people request it, not programs.
absl::Status beginAnalysis(QueueTransaction& queue, const v1::Action& action, const v1::Job& job,
                           const v1::Target& target);

/// Call it when the task has succeeded: ends the job with the task's result.
absl::Status runDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

}  // namespace tessera::server
