#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/secret.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// Transitions of single tasks and of the workers that hold them.
namespace tessera::server {

/// The phase of a job in which tasks of this kind run: "plan", "build", "assemble", "execute", "profile", "analyze",
/// "search", "measure".
std::string phaseOf(v1::TaskKind kind);

/// Stores a READY task for the action and links them. `key`: of what it is shared by; empty: it is the
/// action's alone. `needs` where its host must be able to run
/// an artifact.
absl::StatusOr<v1::Task> addTask(Step& step, const v1::Action& action, v1::TaskSpec spec, const std::string& key,
                                 const v1::CodeForm* needs = nullptr);

/// The living task with this key, which is not empty, or a new one; `joined` says which. The action waits for it.
absl::StatusOr<v1::Task> shareOrAddTask(Step& step, const v1::Action& action, v1::TaskSpec spec, const std::string& key,
                                        const v1::CodeForm* needs, bool& joined);

/// The same for a task that is all its spec says: living ones of the project with an equal spec are one. The action
/// must be running: who joins a task that is under way sees no start.
absl::Status joinTask(Step& step, const v1::Action& action, v1::TaskSpec spec, const v1::CodeForm* needs = nullptr);

/// Makes a task that waits at least as urgent and as patient as the action asks for.
absl::Status shareTask(Step& step, const v1::Action& action, v1::Task task);

/// Takes the lease from its holder: the worker's row no longer lists the task.
absl::Status detachWorker(Step& step, const v1::Task& task);

/// Whether a heartbeat or a report is of the task's newest lease: its token, its holder's name, and the secret that
/// only the holder was told.
template <typename Request>
bool showsNewestLease(const v1::Task& task, const Request& request) {
  return task.fencing_token() == request.fencing_token() && task.worker_id() == request.worker_id() &&
         !task.lease_secret().empty() && equalSecrets(task.lease_secret(), request.secret());
}

/// LEASED -> READY, in its old place in the queue.
absl::Status requeueTask(Step& step, v1::Task& task);
absl::Status cancelTask(Step& step, v1::Task& task);

/// An attempt ended with `failure`: retries it (proto/messages/failure_class.h says when and where), or fails the task
/// and every action that waits for it. `reproducer` is the blob of the serialized TaskSpec (its `inputs` name all it
/// reads), where there is one.
absl::Status attemptFailed(Step& step, v1::Task task, v1::Failure failure, const v1::Digest& reproducer);

/// READY or LEASED -> FAILED, and every action that waits for it.
absl::Status failTask(Step& step, v1::Task task, const v1::Failure& failure);

/// Tells the jobs behind a task how an attempt ended; `failure` null: well.
absl::Status announceAttempt(Step& step, const v1::Task& task, const v1::Failure* failure);

/// Whether a failure of this reason comes with a reproducer if it is the task's last.
bool wantsReproducer(v1::Failure::Reason reason);

}  // namespace tessera::server
