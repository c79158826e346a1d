#include "server/scheduler/tasks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/scheduler/actions.h"
#include "server/scheduler/jobs.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// LEASED -> `state`, off its worker.
absl::Status endLease(Step& step, v1::Task& task, v1::Task::State state) {
  if (task.state() == v1::Task::LEASED) {
    TESSERA_TRY(detachWorker(step, task));
    task.set_lease_expiry_us(0);
  }
  task.set_state(state);
  task.set_end_time_us(step.now_us);
  return step.tx.putTask(task);
}

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

/// What becomes of a task after a failed attempt: nothing for a retry, else the failure it ends with.
std::optional<v1::Failure> verdict(const Rules& rules, v1::Task& task, const v1::Failure& failure) {
  switch (failure.reason()) {
    case v1::Failure::CRASHED:
    case v1::Failure::OUT_OF_MEMORY:
      task.set_crashes(task.crashes() + 1);
      if (task.crashes() < rules.crashes_before_quarantine) {
        return std::nullopt;
      }
      return quarantined(task, failure);
    case v1::Failure::LEASE_LOST:
    case v1::Failure::CANCELLED: {  // the worker was told to stop and gives the task back
      task.set_lease_losses(task.lease_losses() + 1);
      if (task.lease_losses() < rules.lease_losses_before_failure) {
        return std::nullopt;
      }
      v1::Failure lost;
      lost.set_reason(v1::Failure::LEASE_LOST);
      lost.set_message(
          absl::StrCat("lost its worker ", task.lease_losses(), " times; the last time: ", failure.message()));
      lost.set_fix("look at the workers' logs: they end, or lose their connection, while they run this task");
      return lost;
    }
    default:
      return failure;
  }
}

}  // namespace

std::string phaseOf(v1::TaskKind kind) { return absl::AsciiStrToLower(v1::TaskKind_Name(kind)); }

bool wantsReproducer(v1::Failure::Reason reason) {
  return reason >= v1::Failure::CRASHED || reason == v1::Failure::REASON_UNSPECIFIED;
}

absl::StatusOr<v1::Task> addTask(Step& step, const v1::Action& action, v1::TaskSpec spec, const std::string& key) {
  v1::Task task;
  task.set_id(step.ids.next("task"));
  task.set_key(key);
  task.set_state(v1::Task::READY);
  spec.set_run_timeout_us(action.run_timeout_us());
  spec.set_memory_limit_bytes(step.rules.task_memory_bytes);
  *task.mutable_spec() = std::move(spec);
  task.set_priority(action.priority());
  task.set_ready_time_us(step.now_us);
  task.set_create_time_us(step.now_us);
  TESSERA_TRY(step.tx.putTask(task));
  TESSERA_TRY(step.tx.linkTask(action.id(), task.id()));
  step.effects.tasks_ready = true;
  return task;
}

absl::Status shareTask(Step& step, const v1::Action& action, v1::Task task) {
  if (task.state() == v1::Task::READY &&
      (task.priority() < action.priority() || task.spec().run_timeout_us() < action.run_timeout_us())) {
    task.set_priority(std::max(task.priority(), action.priority()));
    task.mutable_spec()->set_run_timeout_us(std::max(task.spec().run_timeout_us(), action.run_timeout_us()));
    TESSERA_TRY(step.tx.putTask(task));
  }
  return absl::OkStatus();
}

absl::Status detachWorker(Step& step, const v1::Task& task) {
  auto worker = step.tx.getWorker(task.worker_id());
  if (absl::IsNotFound(worker.status())) {
    return absl::OkStatus();
  }
  TESSERA_TRY(worker.status());
  auto* tasks = worker->mutable_task_ids();
  tasks->erase(std::remove(tasks->begin(), tasks->end(), task.id()), tasks->end());
  if (tasks->empty() && worker->state() == v1::Worker::BUSY) {
    worker->set_state(v1::Worker::IDLE);
  }
  return step.tx.putWorker(*worker);
}

absl::Status requeueTask(Step& step, v1::Task& task) {
  TESSERA_TRY(endLease(step, task, v1::Task::READY));
  step.effects.tasks_ready = true;
  return absl::OkStatus();
}

absl::Status cancelTask(Step& step, v1::Task& task) { return endLease(step, task, v1::Task::CANCELLED); }

absl::Status announceAttempt(Step& step, const v1::Task& task, const v1::Failure* failure) {
  v1::JobEvent event;
  v1::JobEvent::AttemptEnded* attempt = event.mutable_attempt();
  attempt->set_task_id(task.id());
  attempt->set_phase(phaseOf(task.spec().kind()));
  attempt->set_attempt(task.attempt());
  attempt->set_worker(task.worker_id());
  attempt->set_wall_ms(static_cast<double>(step.now_us - task.start_time_us()) / 1000.0);
  if (failure != nullptr) {
    *attempt->mutable_failure() = *failure;
  }
  TESSERA_ASSIGN(const std::vector<v1::Action> actions, livingActionsOf(step, task.id()));
  for (const v1::Action& action : actions) {
    TESSERA_TRY(forLivingJobs(step, action.id(), [&](v1::Job& job) { return appendEvent(step, job.id(), event); }));
  }
  return absl::OkStatus();
}

absl::Status attemptFailed(Step& step, v1::Task task, v1::Failure failure, const v1::Digest& reproducer) {
  if (failure.reason() == v1::Failure::REASON_UNSPECIFIED) {
    failure.set_reason(v1::Failure::INTERNAL);
  }
  *task.mutable_failure() = failure;
  TESSERA_TRY(announceAttempt(step, task, &failure));
  std::optional<v1::Failure> final = verdict(step.rules, task, failure);
  if (!final) {
    return requeueTask(step, task);
  }
  if (wantsReproducer(final->reason()) && !reproducer.sha256().empty()) {
    TESSERA_TRY(step.tx.putBlob(reproducer));
    *final->mutable_reproducer() = reproducer;
  }
  *task.mutable_failure() = *final;
  TESSERA_TRY(endLease(step, task, v1::Task::FAILED));
  TESSERA_ASSIGN(std::vector<v1::Action> actions, livingActionsOf(step, task.id()));
  for (v1::Action& action : actions) {
    TESSERA_TRY(failAction(step, action, *final));
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
