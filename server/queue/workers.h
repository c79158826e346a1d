#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Who may have which task, and what a worker's faults lead to.
///
/// A worker whose attempts fail through its own fault (a full disk, processes that cannot start, broken transfers) gets
/// nothing for a while after some of them in a row, for longer each time, and then one task to show what it can do. So
/// does one whose self-check found something, for as long as it says so.
namespace tessera::server {

/// What the row should say: DRAINING stays, then SUSPENDED, then BUSY or IDLE by what it holds.
v1::Worker::State stateOf(const v1::Worker& worker, int64_t now_us);

/// Whether it may be given one more task now, by its own state.
bool mayLease(const v1::Worker& worker, const Rules& rules, int64_t now_us);

/// What the self-check of a worker that asks for work says: empty, or why it cannot do any.
void noteSelfCheck(v1::Worker& worker, const std::string& trouble);

/// It has done a task: what was held against it is over.
void noteWork(v1::Worker& worker);

/// An attempt failed through its fault. Changes the row, if there is one.
absl::Status noteFault(Step& step, const std::string& worker_id, const std::string& why);

/// The clock may have been set while the server was down, and nobody is paused or thought alive for that: pauses last
/// at most as long as when they began, and nobody was seen later than now.
absl::Status resetWorkerTimes(Step& step);

/// Whether tasks of this kind, with these needs, can run there at all.
bool canRun(const v1::Worker& worker, const v1::Task& task);

/// Whether some worker that is there, takes work and has not failed this task could run it; `but` is left out.
absl::StatusOr<bool> anotherLives(storage::Reader& reader, const v1::Task& task, const std::string& but);

/// Whether any worker that is there and takes work could run it.
absl::StatusOr<bool> somebodyCanRun(storage::Reader& reader, const v1::Task& task);

/// Whether this worker should have it: it can run it, and has not failed it while somebody else could do it.
absl::StatusOr<bool> suits(storage::Reader& reader, const v1::Worker& worker, const v1::Task& task);

}  // namespace tessera::server
