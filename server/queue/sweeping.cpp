#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/queue/actions.h"
#include "server/queue/jobs.h"
#include "server/queue/scheduler.h"
#include "server/queue/task_traits.h"
#include "server/queue/tasks.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

constexpr size_t kSweepBatch = 64;  // rows per transaction
constexpr int kStrandedLook = 256;  // ready tasks per kind, oldest first

/// Whether the lease has expired.
bool leaseLost(const v1::Task& task, int64_t now_us) { return task.lease_expiry_us() <= now_us; }

/// Whether a run has exceeded its timeout. Workers enforce it; this catches a worker that sends heartbeats but does
/// not. Before the first heartbeat of the process, inputs may still be in transfer.
bool ranTooLong(const v1::Task& task, const Rules& rules, int64_t now_us) {
  const int64_t begun_us = task.run_start_us() > 0 ? task.run_start_us() : task.start_time_us() + rules.transfer_us;
  return now_us - begun_us > task.spec().run_timeout_us() + rules.run_grace_us;
}

/// Whether a worker without tasks has stopped polling. A worker with tasks is judged by its leases.
bool silent(const v1::Worker& worker, const Rules& rules, int64_t now_us) {
  return worker.state() != v1::Worker::LOST && worker.state() != v1::Worker::DRAINING && worker.task_ids().empty() &&
         worker.last_seen_us() + rules.lease_us < now_us;
}

/// Each end checks its condition again, since the row may have changed since the sweep read it.
absl::Status endOverdueTask(QueueTransaction& queue, const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Task task, queue.tx.getTask(id));
  if (task.state() != v1::Task::LEASED) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  if (ranTooLong(task, queue.rules, queue.now_us)) {
    failure.set_reason(v1::Failure::RUN_DEADLINE_EXCEEDED);
    failure.set_message(absl::StrCat("the ", phaseOf(task.spec().kind()), " step ran longer than ",
                                     task.spec().run_timeout_us() / 1000, " ms"));
    failure.set_fix("raise run_timeout_us");
  } else if (leaseLost(task, queue.now_us)) {
    failure.set_reason(v1::Failure::LEASE_LOST);
    failure.set_message(
        absl::StrCat("worker ", task.worker_id(), " sent no heartbeat for ", queue.rules.lease_us / 1000, " ms"));
  } else {
    return absl::OkStatus();
  }
  return attemptFailed(queue, std::move(task), std::move(failure), {});
}

absl::Status endUnstartedJob(QueueTransaction& queue, const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Job job, queue.tx.getJob(id));
  if (job.state() != v1::Job::QUEUED || job.queue_deadline_us() == 0 || job.queue_deadline_us() > queue.now_us) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::QUEUE_DEADLINE_EXCEEDED);
  failure.set_message(
      absl::StrCat("waited longer than ", (job.queue_deadline_us() - job.create_time_us()) / 1000, " ms for a worker"));
  failure.set_fix("raise queue_timeout_us, or add workers");
  TESSERA_RETURN_IF_ERROR(changeState(queue, std::move(job), v1::Job::FAILED, &failure));
  TESSERA_ASSIGN_OR_RETURN(const std::string action_id, queue.tx.getActionOfJob(id));
  return cancelActionIfUnwanted(queue, action_id);
}

/// Ends a job at its deadline, with a partial result if there is one.
absl::Status endLateJob(QueueTransaction& queue, const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Job job, queue.tx.getJob(id));
  if (isTerminal(job.state()) || job.deadline_us() == 0 || job.deadline_us() > queue.now_us) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const std::string action_id, queue.tx.getActionOfJob(id));
  TESSERA_ASSIGN_OR_RETURN(const bool is_result,
                           queue.workflow.takePartialResult(queue, action_id, v1::Failure::JOB_DEADLINE_EXCEEDED, job));
  if (is_result) {
    TESSERA_RETURN_IF_ERROR(changeState(queue, std::move(job), v1::Job::SUCCEEDED, nullptr));
    return cancelActionIfUnwanted(queue, action_id);
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::JOB_DEADLINE_EXCEEDED);
  failure.set_message(absl::StrCat("did not end within ", (job.deadline_us() - job.create_time_us()) / 1000,
                                   " ms, waiting and running"));
  failure.set_fix("raise total_timeout_us, or add workers");
  TESSERA_RETURN_IF_ERROR(changeState(queue, std::move(job), v1::Job::FAILED, &failure));
  return cancelActionIfUnwanted(queue, action_id);
}

absl::Status endStrandedTask(QueueTransaction& queue, const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Task task, queue.tx.getTask(id));
  if (task.state() != v1::Task::READY) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const bool wanted, anyWorkerCanRun(queue.tx, task));
  if (wanted) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::NO_WORKER);
  const std::string kind = v1::TaskKind_Name(task.spec().kind());
  failure.set_message(
      absl::StrCat("no live worker could run this ", kind, " task for ", queue.rules.no_worker_us / 1'000'000, " s"));
  failure.set_accepted(traitsOf(task.spec()).timed_threads > 0
                           ? "a worker whose processor can run the artifact and that reserves cores for measurements "
                             "(--measuring-cores)"
                       : task.has_needs() ? "a worker whose processor can run the artifact"
                                          : absl::StrCat("a worker that accepts ", kind, " tasks"));
  failure.set_fix("`tessera workers` lists the workers; start one with `tessera-worker --server`");
  return failTask(queue, std::move(task), failure);
}

absl::Status loseWorker(QueueTransaction& queue, const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Worker worker, queue.tx.getWorker(id));
  if (!silent(worker, queue.rules, queue.now_us)) {
    return absl::OkStatus();
  }
  worker.set_state(v1::Worker::LOST);
  return queue.tx.putWorker(worker);
}

absl::Status silentWorkers(storage::Reader& reader, const Rules& rules, int64_t now_us, std::vector<std::string>& ids) {
  storage::ListQuery query;
  query.page_size = 1000;
  do {
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Worker> page, reader.listWorkers(query));
    for (const v1::Worker& worker : page.items) {
      if (silent(worker, rules, now_us)) {
        ids.push_back(worker.id());
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return absl::OkStatus();
}

}  // namespace

/// Finds tasks that have been ready, and without a worker that can run them, for `no_worker_us`.
absl::Status Scheduler::findStranded(storage::Reader& reader, int64_t now_us, std::vector<std::string>& ids) {
  if (now_us < next_stranded_look_us_) {
    return absl::OkStatus();
  }
  // Looking at workers for each task is expensive; a fraction of the timeout is precise enough.
  next_stranded_look_us_ = now_us + rules_.no_worker_us / 8;
  std::map<std::string, Stranded> still;
  for (int kind = v1::TaskKind_MIN; kind <= v1::TaskKind_MAX; ++kind) {
    TESSERA_ASSIGN_OR_RETURN(
        const std::vector<v1::Task> tasks,
        reader.readySince(static_cast<v1::TaskKind>(kind), now_us - rules_.no_worker_us / 2, kStrandedLook));
    for (const v1::Task& task : tasks) {
      TESSERA_ASSIGN_OR_RETURN(const bool wanted, anyWorkerCanRun(reader, task));
      if (!wanted) {
        Stranded& entry = still[task.id()];
        const auto known = stranded_.find(task.id());
        // How long no worker could run it is not stored: a restart of the server starts it again.
        entry.since_us = known == stranded_.end() ? now_us : known->second.since_us;
        entry.task.mutable_spec()->set_kind(task.spec().kind());
        if (task.has_needs()) {
          *entry.task.mutable_needs() = task.needs();
        }
        if (now_us - entry.since_us >= rules_.no_worker_us) {
          ids.push_back(task.id());
        }
      }
    }
  }
  stranded_ = std::move(still);
  return absl::OkStatus();
}

void Scheduler::setDraining(bool draining) {
  draining_ = draining;
  if (draining) {
    notifier_.publishAll();
  }
}

void Scheduler::skipSweep() {
  const std::lock_guard only_one(sweeping_);
  last_sweep_us_ = clock_.nowMicros();
  stranded_.clear();  // how long no worker could run a task is known to the server that sweeps
}

absl::Status Scheduler::sweep() {
  const std::lock_guard only_one(sweeping_);
  const int64_t now_us = clock_.nowMicros();
  // A server that stood still (a suspended machine, a stuck disk) has missed heartbeats: leases get their full time
  // again.
  if (last_sweep_us_ > 0 && now_us - last_sweep_us_ > rules_.lease_us / 2) {
    leases_stand_until_us_ = now_us + rules_.lease_us;
  }
  last_sweep_us_ = now_us;

  struct Overdue {
    absl::Status (*end)(QueueTransaction&, const std::string&);
    std::vector<std::string> ids;
  };
  Overdue tasks{&endOverdueTask, {}};
  Overdue unstarted{&endUnstartedJob, {}};
  Overdue late{&endLateJob, {}};
  Overdue stranded{&endStrandedTask, {}};
  Overdue limited{[](QueueTransaction& queue, const std::string& id) { return queue.workflow.endOverdue(queue, id); },
                  {}};
  Overdue workers{&loseWorker, {}};
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> leased, reader.leasedTasks());
    for (const v1::Task& task : leased) {
      const bool lost = leaseLost(task, now_us) && now_us >= leases_stand_until_us_;
      if (lost || ranTooLong(task, rules_, now_us)) {
        tasks.ids.push_back(task.id());
      }
    }
    TESSERA_ASSIGN_OR_RETURN(unstarted.ids, reader.jobsPastQueueDeadline(now_us));
    TESSERA_ASSIGN_OR_RETURN(late.ids, reader.jobsPastDeadline(now_us));
    TESSERA_RETURN_IF_ERROR(findStranded(reader, now_us, stranded.ids));
    TESSERA_ASSIGN_OR_RETURN(limited.ids, workflow_.overdue(reader, now_us));
    return now_us >= leases_stand_until_us_ ? silentWorkers(reader, rules_, now_us, workers.ids) : absl::OkStatus();
  }));
  absl::Status outcome;
  for (const Overdue& overdue : {tasks, unstarted, late, stranded, limited, workers}) {
    for (size_t first = 0; first < overdue.ids.size(); first += kSweepBatch) {
      const size_t last = std::min(overdue.ids.size(), first + kSweepBatch);
      const std::vector<std::string> batch(overdue.ids.begin() + static_cast<std::ptrdiff_t>(first),
                                           overdue.ids.begin() + static_cast<std::ptrdiff_t>(last));
      outcome.Update(endAll(batch, overdue.end));
    }
  }
  return outcome;
}

/// Ends these in one transaction. If that fails, ends each in a transaction of its own, so that one faulty row does not
/// block the others.
absl::Status Scheduler::endAll(const std::vector<std::string>& ids,
                               absl::Status (*end)(QueueTransaction&, const std::string&)) {
  absl::Status together = transact([&](QueueTransaction& queue) -> absl::Status {
    for (const std::string& id : ids) {
      TESSERA_RETURN_IF_ERROR(end(queue, id));
    }
    return absl::OkStatus();
  });
  if (together.ok() || ids.size() == 1) {
    return together;
  }
  absl::Status outcome;
  for (const std::string& id : ids) {
    const absl::Status status = transact([&](QueueTransaction& queue) { return end(queue, id); });
    if (!status.ok()) {
      outcome.Update(absl::Status(status.code(), absl::StrCat(id, ": ", status.message())));
    }
  }
  return outcome;
}

absl::StatusOr<v1::Job> Scheduler::cancelJob(const std::string& job_id) {
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(transact([&](QueueTransaction& queue) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(job, queue.tx.getJob(job_id));
    if (isTerminal(job.state())) {
      return absl::OkStatus();
    }
    v1::Failure failure;
    failure.set_reason(v1::Failure::CANCELLED);
    failure.set_message("cancelled on request");
    TESSERA_ASSIGN_OR_RETURN(const std::string action_id, queue.tx.getActionOfJob(job_id));
    TESSERA_RETURN_IF_ERROR(queue.workflow.takePartialResult(queue, action_id, v1::Failure::CANCELLED, job).status());
    TESSERA_RETURN_IF_ERROR(changeState(queue, job, v1::Job::CANCELLED, &failure));
    TESSERA_RETURN_IF_ERROR(cancelActionIfUnwanted(queue, action_id));
    TESSERA_ASSIGN_OR_RETURN(job, queue.tx.getJob(job_id));
    return absl::OkStatus();
  }));
  return job;
}

}  // namespace tessera::server
