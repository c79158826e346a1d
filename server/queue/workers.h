#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Which worker may run which task, and the consequences of a worker's faults.
///
/// Consecutive attempts that fail through the worker's fault (a full disk, processes that cannot start, broken
/// transfers) suspend it, each time for longer. After the pause it gets a single task. A worker whose self-check
/// reports trouble gets no task until the report ends.
namespace tessera::server {

/// Calls `visit` for each registered worker until it returns false or an error.
absl::Status forWorkers(storage::Reader& reader, const std::function<absl::StatusOr<bool>(const v1::Worker&)>& visit);

/// State of a worker's row: DRAINING if set, else SUSPENDED, else BUSY or IDLE by the tasks that it holds.
v1::Worker::State stateOf(const v1::Worker& worker, int64_t now_us);

/// Whether the worker's state permits one more lease.
bool mayLease(const v1::Worker& worker, const Rules& rules, int64_t now_us);

/// Stores the finding of the worker's self-check; empty: none.
void recordSelfCheck(v1::Worker& worker, const std::string& trouble);

/// The worker has finished a task: clears its faults.
void clearFaults(v1::Worker& worker);

/// An attempt has failed through the worker's fault. No effect if the worker is not registered.
absl::Status recordFault(QueueTransaction& queue, const std::string& worker_id, const std::string& why);

/// Corrects times after a start, because the clock may have been set meanwhile: a pause lasts at most as long as a new
/// one would, and no worker was last seen in the future.
absl::Status resetWorkerTimes(QueueTransaction& queue);

/// Whether the worker accepts this kind of task.
bool acceptsKind(const v1::Worker& worker, v1::TaskKind kind);

/// Whether the worker accepts the task's kind and its host meets the task's needs.
bool canRun(const v1::Worker& worker, const v1::Task& task);

/// Whether a live worker other than `but` accepts work, has not failed this task, and can run it.
absl::StatusOr<bool> anotherWorkerCanRun(storage::Reader& reader, const v1::Task& task, const std::string& but);

/// Whether any live worker that accepts work can run the task.
absl::StatusOr<bool> anyWorkerCanRun(storage::Reader& reader, const v1::Task& task);

/// Whether this worker should run the task: it can, and if it has failed the task before, no other live worker can.
absl::StatusOr<bool> suits(storage::Reader& reader, const v1::Worker& worker, const v1::Task& task);

}  // namespace tessera::server
