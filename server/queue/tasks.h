#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "server/queue/secret.h"
#include "tessera/v1/storage.pb.h"

/// State transitions of tasks, and of the workers that hold them.
namespace tessera::server {

/// Name of the phase of a job that runs tasks of this kind: "plan", "build", "assemble", ...
std::string phaseOf(v1::TaskKind kind);

// Four functions give an action a task. addTask() always makes a new task. shareOrAddTask() uses the living task with
// the caller's key if there is one. shareEqualTask() does the same with a key over the whole specification.
// raiseUrgency() is the part of both that makes an existing task as urgent as the action requires.

/// Requirements of a task on its host.
struct HostNeeds {
  v1::CodeForm code;   ///< code that the host must be able to run
  std::string target;  ///< name of the target that the code is for
};
inline HostNeeds needsOf(const v1::Target& target) { return {target.code(), target.name()}; }

/// Stores a READY task and links it to the action. Tasks with an equal non-empty `key` can be shared (shareOrAddTask).
/// `needs` null: any host.
absl::StatusOr<v1::Task> addTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                                 const std::string& key, const HostNeeds* needs = nullptr);

/// Links the action to the living task with this key (not empty), or to a new one. Sets `joined` to whether there was
/// one.
absl::StatusOr<v1::Task> shareOrAddTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                                        const std::string& key, const HostNeeds* needs, bool& joined);

/// Likewise, with a key over the specification: living tasks of the project with equal specifications are shared. The
/// action must be RUNNING, since joining a task in progress does not start it.
absl::Status shareEqualTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                            const HostNeeds* needs = nullptr);

/// Raises a READY task to the action's priority, place in the fair-share order and run timeout, where these are higher.
absl::Status raiseUrgency(QueueTransaction& queue, const v1::Action& action, v1::Task task);

/// Removes the task from the row of the worker that holds it.
absl::Status detachWorker(QueueTransaction& queue, const v1::Task& task);

/// Whether a heartbeat or report belongs to the task's newest lease: equal token, worker and secret.
template <typename Request>
bool showsNewestLease(const v1::Task& task, const Request& request) {
  return task.fencing_token() == request.fencing_token() && task.worker_id() == request.worker_id() &&
         !task.lease_secret().empty() && equalSecrets(task.lease_secret(), request.secret());
}

/// LEASED -> READY, with its place in the queue kept.
absl::Status requeueTask(QueueTransaction& queue, v1::Task& task);
absl::Status cancelTask(QueueTransaction& queue, v1::Task& task);

/// An attempt has failed. Retries the task as proto/messages/failure_class.h says, or fails it and every action that
/// waits for it. `reproducer`: blob of the serialized TaskSpec, whose `inputs` name everything that the task reads; may
/// be empty.
absl::Status attemptFailed(QueueTransaction& queue, v1::Task task, v1::Failure failure, const v1::Digest& reproducer);

/// READY or LEASED -> FAILED, and the workflow decides about the actions that wait for it.
absl::Status failTask(QueueTransaction& queue, v1::Task task, const v1::Failure& failure);

/// Adds an AttemptEnded event to the jobs that wait for the task. `failure` null: the attempt succeeded.
absl::Status announceAttempt(QueueTransaction& queue, const v1::Task& task, const v1::Failure* failure);

/// Whether a final failure of this reason carries a reproducer.
bool wantsReproducer(v1::Failure::Reason reason);

}  // namespace tessera::server
