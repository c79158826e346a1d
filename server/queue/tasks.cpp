#include "server/queue/tasks.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure_class.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/queue/actions.h"
#include "server/queue/jobs.h"
#include "server/queue/task_traits.h"
#include "server/queue/uses.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

constexpr int kWaitersOfHost = 16;  // waiting workers to wake when a host is free again

/// LEASED or READY -> `state`; removes the task from its worker.
absl::Status endLease(QueueTransaction& queue, v1::Task& task, v1::Task::State state) {
  const bool leased = task.state() == v1::Task::LEASED;
  if (leased) {
    TESSERA_RETURN_IF_ERROR(detachWorker(queue, task));
    task.set_lease_expiry_us(0);
  }
  task.set_state(state);
  task.set_end_time_us(queue.now_us);
  return leased ? queue.tx.putLeasedTask(task, task.fencing_token()) : queue.tx.putTask(task);
}

/// Failure of a task that crashed too often.
v1::Failure quarantined(const v1::Task& task, const v1::Failure& last) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::QUARANTINED);
  failure.set_message(
      absl::StrCat("the ", phaseOf(task.spec().kind()), " step ended ", task.crashes(),
                   " workers' child processes and is not tried again; the last time: ", last.message()));
  failure.set_found(v1::Failure::Reason_Name(last.reason()));
  failure.set_signal(last.signal());
  failure.set_node(last.node());
  failure.set_fix(last.reason() == v1::Failure::OUT_OF_MEMORY
                      ? "compile a smaller model or batch, or start workers with a higher memory limit"
                      : "please report it with the reproducer blob, a serialized tessera.v1.TaskSpec");
  return failure;
}

/// Failure of a task whose workers were lost too often.
v1::Failure lostTooOften(const v1::Task& task, const v1::Failure& last) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::LEASE_LOST);
  failure.set_message(absl::StrCat("lost its worker ", task.lease_losses(), " times; the last time: ", last.message()));
  failure.set_fix("look at the workers' logs: they end, or lose their connection, while they run this task");
  return failure;
}

/// Failure of a task that failed on too many faulty workers.
v1::Failure noWorkerCould(const v1::Task& task, const v1::Failure& last) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::WORKER_FAULT);
  failure.set_message(absl::StrCat("the ", phaseOf(task.spec().kind()), " step was tried ", task.worker_faults(),
                                   " times on workers that could not do it; the last time: ", last.message()));
  failure.set_fix("`tessera workers` names their trouble; mend it, then send the request again");
  return failure;
}

/// Whether two attempts in a row crashed with the same signal that a program raises itself. The input causes such a
/// crash, so a third attempt would crash too. SIGKILL and the like come from outside and do not count.
bool repeats(const v1::Failure& before, const v1::Failure& failure) {
  constexpr int kOwn[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  return failure.reason() == v1::Failure::CRASHED && before.reason() == failure.reason() &&
         before.signal() == failure.signal() && std::ranges::find(kOwn, failure.signal()) != std::end(kOwn);
}

/// The failure with which the task ends after this attempt, or nullopt for a retry. `before`: the failure of the
/// previous attempt, if any. Increments the counter of the failure's class.
std::optional<v1::Failure> verdict(const Rules& rules, v1::Task& task, const v1::Failure& before,
                                   const v1::Failure& failure) {
  switch (classOf(failure.reason()).attempts) {
    case Attempts::kLast:
      return failure;
    case Attempts::kCrash:
      if (traitsOf(task.spec()).trial) {
        return failure;  // the outcome of the trial
      }
      task.set_crashes(task.crashes() + 1);
      return task.crashes() < rules.crashes_before_quarantine && !repeats(before, failure)
                 ? std::nullopt
                 : std::optional(quarantined(task, failure));
    case Attempts::kLoss:
      task.set_lease_losses(task.lease_losses() + 1);
      return task.lease_losses() < rules.lease_losses_before_failure ? std::nullopt
                                                                     : std::optional(lostTooOften(task, failure));
    case Attempts::kWorker:
      task.set_worker_faults(task.worker_faults() + 1);
      return task.worker_faults() < rules.worker_faults_before_failure ? std::nullopt
                                                                       : std::optional(noWorkerCould(task, failure));
  }
  return failure;
}

/// Adds a name unless it is present.
void addOnce(google::protobuf::RepeatedPtrField<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.Add()->assign(name);
  }
}

/// Notes the worker on which the attempt failed, so that the next one runs elsewhere if possible.
absl::Status blame(QueueTransaction& queue, v1::Task& task, const v1::Failure& failure) {
  const FailureClass& entry = classOf(failure.reason());
  if (entry.elsewhere) {
    addOnce(*task.mutable_avoid(), task.worker_id());
  }
  if (failure.reason() == v1::Failure::CRASHED) {
    addOnce(*task.mutable_crashed_on(), task.worker_id());
  }
  return entry.fault == Fault::kWorker ? recordFault(queue, task.worker_id(), failure.message()) : absl::OkStatus();
}

/// The attempt exceeded its run timeout. Fails the jobs whose own timeout it has reached; if others permit more, the
/// task gets the longest one and true is returned.
absl::StatusOr<bool> extendRun(QueueTransaction& queue, v1::Task& task, const v1::Failure& failure) {
  const int64_t had = task.spec().run_timeout_us();
  int64_t longest = had;
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
  for (const v1::Action& action : actions) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, queue.tx.liveJobsOfAction(action.id()));
    for (const v1::Job& job : jobs) {
      longest = std::max(longest, job.run_timeout_us());
    }
  }
  if (longest == had) {
    return false;
  }
  task.mutable_spec()->set_run_timeout_us(longest);
  for (v1::Action& action : actions) {
    TESSERA_RETURN_IF_ERROR(
        failJobs(queue, action, failure, [&](const v1::Job& job) { return job.run_timeout_us() <= had; }));
  }
  return true;
}

}  // namespace

std::string phaseOf(v1::TaskKind kind) { return absl::AsciiStrToLower(v1::TaskKind_Name(kind)); }

bool wantsReproducer(v1::Failure::Reason reason) { return classOf(reason).reproducer; }

absl::StatusOr<v1::Task> addTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                                 const std::string& key, const HostNeeds* needs) {
  v1::Task task;
  task.set_id(queue.ids.next("task"));
  task.set_key(key);
  task.set_state(v1::Task::READY);
  task.set_project(projectOf(action));
  spec.set_run_timeout_us(action.run_timeout_us());
  // The workers enforce both limits.
  spec.set_memory_limit_bytes(queue.rules.task_memory_bytes);
  *task.mutable_spec() = std::move(spec);
  task.set_priority(action.priority());
  // Copies, so that the queue orders tasks without reading actions.
  task.set_ticket(action.ticket());
  task.set_ready_time_us(queue.now_us);
  task.set_create_time_us(queue.now_us);
  if (needs != nullptr) {
    *task.mutable_needs() = needs->code;
    task.set_target(needs->target);
  }
  TESSERA_RETURN_IF_ERROR(touchAll(queue, task.project(), digestsIn(task.spec())));
  TESSERA_RETURN_IF_ERROR(queue.tx.putTask(task));
  TESSERA_RETURN_IF_ERROR(queue.tx.linkTask(action.id(), task.id()));
  ++queue.effects.tasks_ready;
  return task;
}

absl::StatusOr<v1::Task> shareOrAddTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                                        const std::string& key, const HostNeeds* needs, bool& joined) {
  auto living = queue.tx.liveTaskByKey(key);
  joined = living.ok();
  if (absl::IsNotFound(living.status())) {
    return addTask(queue, action, std::move(spec), key, needs);
  }
  TESSERA_RETURN_IF_ERROR(living.status());
  TESSERA_RETURN_IF_ERROR(queue.tx.linkTask(action.id(), living->id()));
  TESSERA_RETURN_IF_ERROR(raiseUrgency(queue, action, *living));
  return living;
}

absl::Status shareEqualTask(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec,
                            const HostNeeds* needs) {
  const std::string key = KeyHash().add("tessera.task").add(projectOf(action)).add(canonicalBytes(spec)).finish();
  bool joined = false;
  return shareOrAddTask(queue, action, std::move(spec), key, needs, joined).status();
}

absl::Status raiseUrgency(QueueTransaction& queue, const v1::Action& action, v1::Task task) {
  if (task.state() != v1::Task::READY) {
    return absl::OkStatus();  // a running attempt keeps its limit; attemptFailed() considers the jobs' own limits
  }
  const bool more_urgent = action.priority() > task.priority();
  const bool sooner = action.priority() == task.priority() && action.ticket() < task.ticket();
  const bool more_patient = action.run_timeout_us() > task.spec().run_timeout_us();
  if (more_urgent || sooner) {
    task.set_priority(action.priority());
    task.set_ticket(action.ticket());
  }
  if (more_patient) {
    task.mutable_spec()->set_run_timeout_us(action.run_timeout_us());
  }
  return more_urgent || sooner || more_patient ? queue.tx.putTask(task) : absl::OkStatus();
}

absl::Status detachWorker(QueueTransaction& queue, const v1::Task& task) {
  auto worker = queue.tx.getWorker(task.worker_id());
  if (absl::IsNotFound(worker.status())) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(worker.status());
  if (task.cores() != v1::CORE_USE_UNSPECIFIED) {
    // A task may be waiting for these cores; for a whole host, tasks of each of its workers.
    queue.effects.tasks_ready += task.cores() == v1::WHOLE_HOST ? kWaitersOfHost : 1;
  }
  auto* tasks = worker->mutable_task_ids();
  tasks->erase(std::remove(tasks->begin(), tasks->end(), task.id()), tasks->end());
  if (worker->state() != v1::Worker::LOST) {
    worker->set_state(stateOf(*worker, queue.now_us));
  }
  return queue.tx.putWorker(*worker);
}

absl::Status requeueTask(QueueTransaction& queue, v1::Task& task) {
  TESSERA_RETURN_IF_ERROR(endLease(queue, task, v1::Task::READY));
  ++queue.effects.tasks_ready;
  return absl::OkStatus();
}

absl::Status cancelTask(QueueTransaction& queue, v1::Task& task) {
  if (task.state() == v1::Task::LEASED) {
    queue.effects.seen.attempts.push_back(
        {task.spec().kind(), v1::Failure::CANCELLED, seconds(queue.now_us - task.start_time_us())});
  }
  return endLease(queue, task, v1::Task::CANCELLED);
}

absl::Status announceAttempt(QueueTransaction& queue, const v1::Task& task, const v1::Failure* failure) {
  v1::JobEvent event;
  v1::JobEvent::AttemptEnded* attempt = event.mutable_attempt();
  attempt->set_task_id(task.id());
  attempt->set_phase(phaseOf(task.spec().kind()));
  attempt->set_attempt(task.attempt());
  attempt->set_worker(task.worker_id());
  attempt->set_wall_ms(static_cast<double>(queue.now_us - task.start_time_us()) / 1000.0);
  if (failure != nullptr) {
    *attempt->mutable_failure() = *failure;
  }
  queue.effects.seen.attempts.push_back({task.spec().kind(),
                                         failure != nullptr ? failure->reason() : v1::Failure::REASON_UNSPECIFIED,
                                         seconds(queue.now_us - task.start_time_us())});
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
  for (const v1::Action& action : actions) {
    for (const std::string& owner : actionsWithJobs(action)) {
      TESSERA_RETURN_IF_ERROR(
          forLivingJobs(queue, owner, [&](v1::Job& job) { return appendEvent(queue, job.id(), event); }));
    }
  }
  return absl::OkStatus();
}

absl::Status attemptFailed(QueueTransaction& queue, v1::Task task, v1::Failure failure, const v1::Digest& reproducer) {
  if (failure.reason() == v1::Failure::REASON_UNSPECIFIED) {
    failure.set_reason(v1::Failure::INTERNAL);
  }
  // The previous attempt's failure tells whether a crash repeats.
  const v1::Failure before = std::exchange(*task.mutable_failure(), failure);
  TESSERA_RETURN_IF_ERROR(announceAttempt(queue, task, &failure));
  TESSERA_RETURN_IF_ERROR(blame(queue, task, failure));
  if (failure.reason() == v1::Failure::RUN_DEADLINE_EXCEEDED) {
    TESSERA_ASSIGN_OR_RETURN(const bool extended, extendRun(queue, task, failure));
    if (extended) {
      return requeueTask(queue, task);
    }
  }
  if (failure.reason() == v1::Failure::INCOMPATIBLE_HOST && traitsOf(task.spec()).any_host) {
    // Hosts have different processors; another one may equal the one on which the work began.
    TESSERA_ASSIGN_OR_RETURN(const bool another, anotherWorkerCanRun(queue.tx, task, task.worker_id()));
    if (another) {
      addOnce(*task.mutable_avoid(), task.worker_id());
      return requeueTask(queue, task);
    }
  }
  std::optional<v1::Failure> final = verdict(queue.rules, task, before, failure);
  if (!final) {
    return requeueTask(queue, task);
  }
  // Check the file again: a collection may have deleted an older blob of equal content.
  if (wantsReproducer(final->reason()) && !reproducer.sha256().empty() && queue.blobs.contains(reproducer.sha256())) {
    TESSERA_RETURN_IF_ERROR(queue.tx.putBlob(reproducer, projectOf(task), queue.now_us));
    TESSERA_RETURN_IF_ERROR(queue.tx.touch(storage::Kind::kBlob, reproducer.sha256(), queue.now_us));
    *final->mutable_reproducer() = reproducer;
  }
  return failTask(queue, std::move(task), *final);
}

absl::Status failTask(QueueTransaction& queue, v1::Task task, const v1::Failure& failure) {
  *task.mutable_failure() = failure;
  TESSERA_RETURN_IF_ERROR(endLease(queue, task, v1::Task::FAILED));
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
  return queue.workflow.taskFailed(queue, task, failure, std::move(actions));
}

}  // namespace tessera::server
