#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/messages/project.h"
#include "proto/messages/sandbox_measures.h"
#include "proto/support/status_macros.h"
#include "server/queue/actions.h"
#include "server/queue/cores.h"
#include "server/queue/scheduler.h"
#include "server/queue/task_traits.h"
#include "server/queue/tasks.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

/// The worker must register: the server may have forgotten it, or never have known it.
absl::Status notRegistered(const std::string& worker_id) {
  return absl::FailedPreconditionError(absl::StrCat("worker ", worker_id, " is not registered; call RegisterWorker"));
}

absl::Status ofAnother(const std::string& worker_id) {
  return absl::PermissionDeniedError(absl::StrCat("worker ", worker_id, " is there with another credential"));
}

absl::StatusOr<v1::Worker> registeredWorker(storage::Reader& reader, const std::string& worker_id,
                                            const std::string& owner, const Rules& rules) {
  auto worker = reader.getWorker(worker_id);
  if (worker.ok() && worker->owner() != owner) {
    return ofAnother(worker_id);
  }
  // It may have registered at a server of another release on this store.
  const bool is_other_release = worker.ok() && worker->compiler_version() != rules.compiler_version;
  return absl::IsNotFound(worker.status()) || is_other_release ? notRegistered(worker_id) : worker;
}

/// Kinds of tasks that the worker accepts; empty: all.
std::vector<v1::TaskKind> kindsOf(const v1::Worker& worker) {
  std::vector<v1::TaskKind> kinds;
  for (const int kind : worker.kinds()) {
    kinds.push_back(static_cast<v1::TaskKind>(kind));
  }
  return kinds;
}

/// Projects that have as many running jobs as their quota allows, so that tasks which begin a job must wait.
class FullProjects {
 public:
  FullProjects(storage::Reader& reader, const Rules& rules) : reader_(reader), rules_(rules) {}

  /// Whether the project may begin no further job; also if its usage cannot be read.
  bool mayNotBegin(const std::string& project) {
    const absl::StatusOr<bool> full = isFull(project);
    return !full.ok() || *full;
  }

  /// Whether the task begins a job that its project may not begin now. The queue has skipped most of these tasks
  /// already (QueueQuery::may_not_start), but not those whose running jobs have ended, nor those of an earlier release.
  absl::StatusOr<bool> hold(const v1::Task& task) {
    if (!rules_.quota_of || task.attempt() > 0) {
      return false;
    }
    TESSERA_ASSIGN_OR_RETURN(const bool full, isFull(projectOf(task)));
    if (!full) {
      return false;
    }
    // Tasks that a running job waits for are never held back, since the job could not end otherwise.
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> actions, reader_.actionsOfTask(task.id()));
    for (const std::string& id : actions) {
      TESSERA_ASSIGN_OR_RETURN(const v1::Action action, reader_.getAction(id));
      if (action.state() == v1::Job::RUNNING) {
        return false;
      }
    }
    return true;
  }

 private:
  /// Reads each project's usage at most once per poll.
  absl::StatusOr<bool> isFull(const std::string& project) {
    const auto known = full_.find(project);
    if (known != full_.end()) {
      return known->second;
    }
    const int most = rules_.quota_of(project).running_jobs();
    bool full = false;
    if (most > 0) {
      TESSERA_ASSIGN_OR_RETURN(const storage::Usage usage, reader_.usageOf(project));
      full = usage.running_jobs >= most;
    }
    return full_[project] = full;
  }

  storage::Reader& reader_;
  const Rules& rules_;
  std::map<std::string, bool> full_;
};

/// Query of the next task for this worker. A read error about other workers counts as "no task".
storage::QueueQuery tasksFor(storage::Reader& reader, const v1::Worker& worker, HostCores& cores, const Rules& rules,
                             int64_t now_us) {
  const auto full = std::make_shared<FullProjects>(reader, rules);
  const auto accept = [&reader, &worker, &cores, full](const v1::Task& task) {
    const absl::StatusOr<bool> held = full->hold(task);
    if (!held.ok() || *held) {
      return false;
    }
    const absl::StatusOr<bool> good = suits(reader, worker, task);
    if (!good.ok() || !*good) {
      return false;
    }
    const auto placed = cores.place(task);
    return placed.ok() && placed->has_value();
  };
  storage::QueueQuery query{kindsOf(worker), accept, now_us, rules.ageing_us};
  if (rules.quota_of) {
    query.may_not_start = [full](const std::string& project) { return full->mayNotBegin(project); };
  }
  return query;
}

/// Leases `task` to `worker`: stores the task and updates `worker`, which the caller stores.
absl::Status grant(QueueTransaction& queue, v1::Task task, v1::Worker& worker, HostCores& cores, v1::Lease& lease) {
  TESSERA_ASSIGN_OR_RETURN(const std::optional<CoreGrant> placed, cores.place(task));
  if (!placed) {
    return absl::InternalError(absl::StrCat("task ", task.id(), " was chosen for a host that has no cores for it"));
  }
  task.set_cores(placed->use);
  task.set_first_core(placed->first);
  task.set_host(hostOf(worker));
  lease.set_cores(placed->use);
  lease.set_first_core(placed->first);
  task.set_state(v1::Task::LEASED);
  // From here on reports under older tokens are rejected.
  task.set_fencing_token(task.fencing_token() + 1);
  task.set_attempt(task.attempt() + 1);
  task.set_worker_id(worker.id());
  task.set_start_time_us(queue.now_us);
  if (task.first_start_us() == 0) {
    task.set_first_start_us(queue.now_us);
    queue.effects.seen.starts.push_back({task.spec().kind(), seconds(queue.now_us - task.ready_time_us())});
  }
  task.set_end_time_us(0);
  task.set_run_start_us(0);
  task.set_lease_expiry_us(queue.now_us + queue.rules.lease_us);
  task.set_lease_secret(queue.ids.secret());
  TESSERA_RETURN_IF_ERROR(queue.tx.putTask(task));
  // Clients without work resume at this ticket.
  TESSERA_RETURN_IF_ERROR(queue.tx.ticketServed(task.priority(), task.ticket()));
  worker.add_task_ids(task.id());
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
  for (v1::Action& action : actions) {
    TESSERA_RETURN_IF_ERROR(startAction(queue, action));
  }
  lease.set_task_id(task.id());
  lease.set_job_id(actions.empty() ? "" : actions.front().job_id());
  lease.set_fencing_token(task.fencing_token());
  lease.set_secret(task.lease_secret());
  lease.set_attempt(task.attempt());
  lease.set_lease_us(queue.rules.lease_us);
  *lease.mutable_task() = task.spec();
  return queue.workflow.taskLeased(queue, task, worker, std::move(actions), lease);
}

/// Answer to a heartbeat for this task under this token.
v1::HeartbeatResponse::Verdict verdictFor(const absl::StatusOr<v1::Task>& task, const v1::HeartbeatRequest& request) {
  if (!task.ok() || !showsNewestLease(*task, request)) {
    return v1::HeartbeatResponse::ABORT_LOST;
  }
  switch (task->state()) {
    case v1::Task::LEASED:
      return v1::HeartbeatResponse::GO_ON;
    case v1::Task::CANCELLED:
    case v1::Task::FAILED:
      return v1::HeartbeatResponse::ABORT_CANCELLED;
    default:
      return v1::HeartbeatResponse::ABORT_LOST;
  }
}

bool carriesProgress(const v1::Task& task, const v1::HeartbeatRequest& request) {
  return request.has_progress() && traitsOf(task.spec()).reports_progress;
}

bool beginsToRun(const v1::Task& task, const v1::HeartbeatRequest& request) {
  return request.run_us() > 0 && task.run_start_us() == 0;
}

/// Extends the lease, and stores the start of the run and progress.
absl::Status prolong(QueueTransaction& queue, const v1::HeartbeatRequest& request, v1::Task task) {
  if (beginsToRun(task, request)) {
    // The heartbeat tells how long the process has run by the worker's clock; only the duration is trusted.
    task.set_run_start_us(std::max(task.start_time_us(), queue.now_us - request.run_us()));
  }
  task.set_lease_expiry_us(queue.now_us + queue.rules.lease_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putLeasedTask(task, task.fencing_token()));
  if (auto worker = queue.tx.getWorker(request.worker_id()); worker.ok()) {
    worker->set_last_seen_us(queue.now_us);
    worker->set_state(stateOf(*worker, queue.now_us));
    TESSERA_RETURN_IF_ERROR(queue.tx.putWorker(*worker));
  }
  if (carriesProgress(task, request)) {
    TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
    for (v1::Action& action : actions) {
      TESSERA_RETURN_IF_ERROR(queue.workflow.taskProgressed(queue, action, request.progress()));
    }
  }
  return absl::OkStatus();
}

/// Checks that the worker's sandbox has all `required` measures.
absl::Status checkSandbox(const std::vector<std::string>& required, const v1::RegisterWorkerRequest& request) {
  const std::vector<std::string> missing = missingMeasures(required, request.sandbox());
  return missing.empty()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "worker ", request.worker_id(),
                   " has less of a sandbox than this server requires; missing: ", absl::StrJoin(missing, "; ")));
}

/// Whether the worker was started by the server whose local workers have this prefix.
bool isLocal(const std::string& prefix, const std::string& worker_id) {
  return worker_id.size() > prefix.size() && worker_id.starts_with(prefix) &&
         worker_id.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

/// Returns all tasks of the worker to the queue, as lost with it.
absl::Status loseLeases(QueueTransaction& queue, const std::string& worker_id, const std::string& why) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, queue.tx.leasedTasks());
  for (const v1::Task& task : tasks) {
    if (task.worker_id() != worker_id) {
      continue;
    }
    // The failure of a previous task may have cancelled this one.
    TESSERA_ASSIGN_OR_RETURN(v1::Task now, queue.tx.getTask(task.id()));
    if (now.state() != v1::Task::LEASED) {
      continue;
    }
    v1::Failure failure;
    failure.set_reason(v1::Failure::LEASE_LOST);
    failure.set_message(why);
    TESSERA_RETURN_IF_ERROR(attemptFailed(queue, std::move(now), std::move(failure), {}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::RegisterWorkerResponse> Scheduler::registerWorker(const v1::RegisterWorkerRequest& request,
                                                                     const std::string& owner) {
  if (request.compiler_version() != rules_.compiler_version) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", request.worker_id(), " has compiler ",
                                                      request.compiler_version(), ", this server ",
                                                      rules_.compiler_version, "; install the same release on both"));
  }
  TESSERA_RETURN_IF_ERROR(checkSandbox(rules_.required_sandbox, request));
  TESSERA_RETURN_IF_ERROR(transact([&](QueueTransaction& queue) -> absl::Status {
    v1::Worker worker;
    auto known = queue.tx.getWorker(request.worker_id());
    if (known.ok()) {
      const bool another = known->owner() != owner && !known->owner().empty();
      if (another && known->state() != v1::Worker::LOST) {
        return ofAnother(request.worker_id());
      }
      // A repeated registration keeps the tasks; a restarted process has lost them.
      const bool same_process = known->pid() == request.pid() && known->host().hostname() == request.host().hostname();
      if (!same_process) {
        TESSERA_RETURN_IF_ERROR(
            loseLeases(queue, request.worker_id(), absl::StrCat("worker ", request.worker_id(), " restarted")));
        TESSERA_ASSIGN_OR_RETURN(known, queue.tx.getWorker(request.worker_id()));
      }
      worker = *std::move(known);
    } else if (!absl::IsNotFound(known.status())) {
      return known.status();
    }
    worker.set_id(request.worker_id());
    worker.set_owner(owner);
    *worker.mutable_host() = request.host();
    worker.set_compiler_version(request.compiler_version());
    *worker.mutable_kinds() = request.kinds();
    worker.set_slots(std::max(1, request.slots()));
    worker.set_measuring_cores(request.measuring_cores());
    *worker.mutable_sandbox() = request.sandbox();
    worker.set_pid(request.pid());
    worker.set_last_seen_us(queue.now_us);
    // The cause may have been fixed, so the worker gets one task to prove it.
    worker.set_suspended_until_us(0);
    recordSelfCheck(worker, "");
    worker.set_state(stateOf(worker, queue.now_us));
    queue.effects.tasks_ready += worker.slots();
    return queue.tx.putWorker(worker);
  }));
  {
    // Tasks that it can run now have had a worker, even if it leaves at once: their NO_WORKER timeout starts again.
    v1::Worker worker;
    *worker.mutable_kinds() = request.kinds();
    *worker.mutable_host() = request.host();
    worker.set_measuring_cores(request.measuring_cores());
    const std::lock_guard lock(sweeping_);
    std::erase_if(stranded_, [&](const auto& entry) { return canRun(worker, entry.second.task); });
  }
  v1::RegisterWorkerResponse response;
  response.set_lease_us(rules_.lease_us);
  response.set_heartbeat_us(rules_.heartbeat_us);
  return response;
}

absl::StatusOr<v1::LeaseTaskResponse> Scheduler::leaseTask(const std::string& worker_id, const std::string& trouble,
                                                           const std::string& owner) {
  v1::LeaseTaskResponse response;
  // Read first: waiting workers poll often, and a read needs no commit.
  bool worth_a_try = false;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const v1::Worker known, registeredWorker(reader, worker_id, owner, rules_));
    const int64_t now_us = clock_.nowMicros();
    v1::Worker worker = known;
    recordSelfCheck(worker, trouble);
    worker.set_state(stateOf(worker, now_us));
    const bool draining = worker.state() == v1::Worker::DRAINING || draining_;
    response.set_draining(draining);
    HostCores cores(reader, worker, now_us);
    // Write at least often enough that the sweep does not consider the worker silent.
    const bool row_is_old = now_us - known.last_seen_us() > rules_.lease_us / 3;
    const bool news = worker.state() != known.state() || worker.trouble() != known.trouble();
    worth_a_try = row_is_old || news ||
                  (!draining && mayLease(worker, rules_, now_us) &&
                   reader.nextReadyTask(tasksFor(reader, worker, cores, rules_, now_us)).ok());
    return absl::OkStatus();
  }));
  if (!worth_a_try) {
    return response;
  }
  TESSERA_RETURN_IF_ERROR(transact([&](QueueTransaction& queue) -> absl::Status {
    response.Clear();
    TESSERA_ASSIGN_OR_RETURN(v1::Worker worker, registeredWorker(queue.tx, worker_id, owner, rules_));
    worker.set_last_seen_us(queue.now_us);
    recordSelfCheck(worker, trouble);
    worker.set_state(stateOf(worker, queue.now_us));
    response.set_draining(worker.state() == v1::Worker::DRAINING || draining_);
    if (!response.draining() && mayLease(worker, rules_, queue.now_us)) {
      HostCores cores(queue.tx, worker, queue.now_us);
      // Query again: between read and transaction another worker may have taken the task.
      auto task = queue.tx.claimReadyTask(tasksFor(queue.tx, worker, cores, rules_, queue.now_us));
      if (task.ok()) {
        TESSERA_RETURN_IF_ERROR(grant(queue, *std::move(task), worker, cores, *response.mutable_lease()));
      } else if (!absl::IsNotFound(task.status())) {
        return task.status();
      }
    }
    worker.set_state(stateOf(worker, queue.now_us));
    return queue.tx.putWorker(worker);
  }));
  return response;
}

bool Scheduler::tasksWait() {
  int64_t ready = 0;
  const absl::Status status = store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(ready, reader.queueLength());
    return absl::OkStatus();
  });
  return !status.ok() || ready > 0;
}

absl::StatusOr<v1::HeartbeatResponse> Scheduler::heartbeat(const v1::HeartbeatRequest& request) {
  v1::HeartbeatResponse response;
  // Most heartbeats change nothing: a lease is only extended after a third of it has passed.
  bool must_write = false;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    const auto task = reader.getTask(request.task_id());
    response.set_verdict(verdictFor(task, request));
    if (response.verdict() == v1::HeartbeatResponse::GO_ON) {
      const int64_t left = task->lease_expiry_us() - clock_.nowMicros();
      must_write = left < rules_.lease_us / 3 * 2 || carriesProgress(*task, request) || beginsToRun(*task, request);
    }
    return absl::OkStatus();
  }));
  if (must_write) {
    TESSERA_RETURN_IF_ERROR(transact([&](QueueTransaction& queue) -> absl::Status {
      auto task = queue.tx.getTask(request.task_id());
      response.set_verdict(verdictFor(task, request));
      return response.verdict() == v1::HeartbeatResponse::GO_ON ? prolong(queue, request, *std::move(task))
                                                                : absl::OkStatus();
    }));
  }
  return response;
}

absl::StatusOr<v1::Worker> Scheduler::drainWorker(const std::string& worker_id, bool drain) {
  v1::Worker worker;
  TESSERA_RETURN_IF_ERROR(transact([&](QueueTransaction& queue) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(worker, queue.tx.getWorker(worker_id));
    if (drain || worker.state() == v1::Worker::DRAINING) {
      worker.set_state(drain ? v1::Worker::DRAINING : v1::Worker::IDLE);
      worker.set_state(stateOf(worker, queue.now_us));
      TESSERA_RETURN_IF_ERROR(queue.tx.putWorker(worker));
      queue.effects.tasks_ready += worker.slots();  // wakes a waiting worker, which polls again
    }
    return absl::OkStatus();
  }));
  return worker;
}

absl::Status Scheduler::workerGone(const std::string& worker_id) {
  return transact([&](QueueTransaction& queue) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(loseLeases(queue, worker_id, absl::StrCat("worker ", worker_id, " ended")));
    auto worker = queue.tx.getWorker(worker_id);
    if (!worker.ok()) {
      return absl::IsNotFound(worker.status()) ? absl::OkStatus() : worker.status();
    }
    if (worker->state() != v1::Worker::DRAINING) {
      worker->set_state(v1::Worker::LOST);
    }
    return queue.tx.putWorker(*worker);
  });
}

absl::Status Scheduler::recover(const std::string& local_prefix, bool others_serve) {
  return transact([&](QueueTransaction& queue) -> absl::Status {
    if (!others_serve) {
      TESSERA_RETURN_IF_ERROR(resetWorkerTimes(queue));
    }
    TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, queue.tx.leasedTasks());
    for (v1::Task& task : tasks) {
      if (isLocal(local_prefix, task.worker_id())) {
        // Ended with the server: counts neither as a crash nor as a loss.
        v1::Failure failure;
        failure.set_reason(v1::Failure::LEASE_LOST);
        failure.set_message("the server restarted, and its local workers with it");
        TESSERA_RETURN_IF_ERROR(announceAttempt(queue, task, &failure));
        TESSERA_RETURN_IF_ERROR(requeueTask(queue, task));
      } else if (!others_serve) {
        // The clock may have been set while the server was down, so neither lease nor run time is measured across it.
        task.set_lease_expiry_us(queue.now_us + queue.rules.lease_us);
        task.set_start_time_us(queue.now_us);
        if (task.run_start_us() > 0) {
          task.set_run_start_us(queue.now_us);
        }
        TESSERA_RETURN_IF_ERROR(queue.tx.putTask(task));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
