#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduler/actions.h"
#include "server/scheduler/jobs.h"
#include "server/scheduler/scheduler.h"
#include "server/scheduler/tasks.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// What a look at the store found overdue. Checked again inside the transaction that acts on it.
struct Overdue {
  std::vector<std::string> tasks;
  std::vector<std::string> jobs;
  std::vector<std::string> workers;

  bool empty() const { return tasks.empty() && jobs.empty() && workers.empty(); }
};

bool leaseLost(const v1::Task& task, int64_t now_us) { return task.lease_expiry_us() <= now_us; }

/// Workers enforce the run timeout; this catches one that keeps beating but does not.
bool ranTooLong(const v1::Task& task, const Rules& rules, int64_t now_us) {
  return now_us - task.start_time_us() > task.spec().run_timeout_us() + rules.run_grace_us;
}

bool silent(const v1::Worker& worker, const Rules& rules, int64_t now_us) {
  return worker.state() != v1::Worker::LOST && worker.state() != v1::Worker::DRAINING && worker.task_ids().empty() &&
         worker.last_seen_us() + rules.lease_us < now_us;
}

absl::Status findOverdue(storage::Reader& reader, const Rules& rules, int64_t now_us, Overdue& overdue) {
  TESSERA_ASSIGN(const std::vector<v1::Task> tasks, reader.leasedTasks());
  for (const v1::Task& task : tasks) {
    if (leaseLost(task, now_us) || ranTooLong(task, rules, now_us)) {
      overdue.tasks.push_back(task.id());
    }
  }
  TESSERA_ASSIGN(overdue.jobs, reader.jobsPastQueueDeadline(now_us));
  storage::ListQuery query;
  query.page_size = 1000;
  do {
    TESSERA_ASSIGN(const storage::Page<v1::Worker> page, reader.listWorkers(query));
    for (const v1::Worker& worker : page.items) {
      if (silent(worker, rules, now_us)) {
        overdue.workers.push_back(worker.id());
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return absl::OkStatus();
}

absl::Status endOverdueTask(Step& step, const std::string& id) {
  TESSERA_ASSIGN(v1::Task task, step.tx.getTask(id));
  if (task.state() != v1::Task::LEASED) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  if (ranTooLong(task, step.rules, step.now_us)) {
    failure.set_reason(v1::Failure::RUN_DEADLINE_EXCEEDED);
    failure.set_message(absl::StrCat("the ", phaseOf(task.spec().kind()), " step ran longer than ",
                                     task.spec().run_timeout_us() / 1000, " ms"));
    failure.set_fix("raise run_timeout_us");
  } else if (leaseLost(task, step.now_us)) {
    failure.set_reason(v1::Failure::LEASE_LOST);
    failure.set_message(
        absl::StrCat("worker ", task.worker_id(), " sent no heartbeat for ", step.rules.lease_us / 1000, " ms"));
  } else {
    return absl::OkStatus();
  }
  return attemptFailed(step, std::move(task), std::move(failure), {});
}

absl::Status endUnstartedJob(Step& step, const std::string& id) {
  TESSERA_ASSIGN(v1::Job job, step.tx.getJob(id));
  if (job.state() != v1::Job::QUEUED || job.queue_deadline_us() == 0 || job.queue_deadline_us() > step.now_us) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::QUEUE_DEADLINE_EXCEEDED);
  failure.set_message(
      absl::StrCat("waited longer than ", (job.queue_deadline_us() - job.create_time_us()) / 1000, " ms for a worker"));
  failure.set_fix("raise queue_timeout_us, or add workers");
  TESSERA_TRY(changeState(step, std::move(job), v1::Job::FAILED, &failure));
  TESSERA_ASSIGN(const std::string action_id, step.tx.getActionOfJob(id));
  return cancelActionIfUnwanted(step, action_id);
}

absl::Status loseWorker(Step& step, const std::string& id) {
  TESSERA_ASSIGN(v1::Worker worker, step.tx.getWorker(id));
  if (!silent(worker, step.rules, step.now_us)) {
    return absl::OkStatus();
  }
  worker.set_state(v1::Worker::LOST);
  return step.tx.putWorker(worker);
}

}  // namespace

absl::Status Scheduler::sweep() {
  Overdue overdue;
  const int64_t now_us = clock_.nowMicros();
  TESSERA_TRY(store_.read([&](storage::Reader& reader) { return findOverdue(reader, rules_, now_us, overdue); }));
  if (overdue.empty()) {
    return absl::OkStatus();
  }
  return transact([&](Step& step) -> absl::Status {
    for (const std::string& id : overdue.tasks) {
      TESSERA_TRY(endOverdueTask(step, id));
    }
    for (const std::string& id : overdue.jobs) {
      TESSERA_TRY(endUnstartedJob(step, id));
    }
    for (const std::string& id : overdue.workers) {
      TESSERA_TRY(loseWorker(step, id));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::Job> Scheduler::cancelJob(const std::string& job_id) {
  v1::Job job;
  TESSERA_TRY(transact([&](Step& step) -> absl::Status {
    TESSERA_ASSIGN(job, step.tx.getJob(job_id));
    if (isTerminal(job.state())) {
      return absl::OkStatus();
    }
    v1::Failure failure;
    failure.set_reason(v1::Failure::CANCELLED);
    failure.set_message("cancelled on request");
    TESSERA_TRY(changeState(step, job, v1::Job::CANCELLED, &failure));
    TESSERA_ASSIGN(const std::string action_id, step.tx.getActionOfJob(job_id));
    TESSERA_TRY(cancelActionIfUnwanted(step, action_id));
    TESSERA_ASSIGN(job, step.tx.getJob(job_id));
    return absl::OkStatus();
  }));
  return job;
}

}  // namespace tessera::server
