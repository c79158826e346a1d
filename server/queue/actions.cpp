#include "server/queue/actions.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/util/message_differencer.h"
#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/queue/tasks.h"

namespace tessera::server {
namespace {

/// The job shows its action's progress.
void copyProgress(const v1::Action& action, v1::Job& job) {
  *job.mutable_progress() = action.progress();
  *job.mutable_phases() = action.phases();
}

/// Cancels unfinished tasks that no other living action waits for. The action's own end must be stored already.
absl::Status releaseTasks(QueueTransaction& queue, const v1::Action& action) {
  TESSERA_RETURN_IF_ERROR(queue.workflow.release(queue, action));
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, queue.tx.tasksOfAction(action.id()));
  for (v1::Task& task : tasks) {
    if (task.state() != v1::Task::READY && task.state() != v1::Task::LEASED) {
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> others, livingActionsOf(queue, task.id()));
    if (others.empty()) {
      TESSERA_RETURN_IF_ERROR(cancelTask(queue, task));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool isLiving(const v1::Action& action) {
  return action.state() == v1::Job::QUEUED || action.state() == v1::Job::RUNNING;
}

std::vector<std::string> actionsWithJobs(const v1::Action& action) {
  if (action.has_search()) {
    return {action.search().wanted_by().begin(), action.search().wanted_by().end()};
  }
  return {action.id()};
}

absl::StatusOr<std::vector<v1::Action>> livingActionsOf(QueueTransaction& queue, const std::string& task_id) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> ids, queue.tx.actionsOfTask(task_id));
  std::vector<v1::Action> result;
  for (const std::string& id : ids) {
    TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(id));
    if (isLiving(action)) {
      result.push_back(std::move(action));
    }
  }
  return result;
}

absl::Status startAction(QueueTransaction& queue, v1::Action& action) {
  if (action.state() != v1::Job::QUEUED) {
    return absl::OkStatus();
  }
  action.set_state(v1::Job::RUNNING);
  action.set_start_time_us(queue.now_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return forLivingJobs(queue, action.id(),
                       [&](v1::Job& job) { return changeState(queue, job, v1::Job::RUNNING, nullptr); });
}

absl::Status noteProgress(QueueTransaction& queue, v1::Action& action, const v1::Progress& progress, bool can_wait) {
  if (google::protobuf::util::MessageDifferencer::Equals(progress, action.progress())) {
    return absl::OkStatus();
  }
  const bool same_phase = progress.phase() == action.progress().phase();
  *action.mutable_progress() = progress;
  // Each event is a row: a task that reports often must not fill the store with them.
  const bool too_soon = queue.now_us - action.progress_time_us() < queue.rules.progress_interval_us;
  if (can_wait && same_phase && too_soon) {
    return queue.tx.putAction(action);
  }
  action.set_progress_time_us(queue.now_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return forLivingJobs(queue, action.id(), [&](v1::Job& job) -> absl::Status {
    copyProgress(action, job);
    TESSERA_RETURN_IF_ERROR(queue.tx.updateJob(job));
    v1::JobEvent event;
    *event.mutable_progress() = progress;
    return appendEvent(queue, job.id(), std::move(event));
  });
}

void notePhase(v1::Action& action, const std::string& phase, double wall_ms, double cpu_ms, int tasks) {
  v1::PhaseTime* time = action.add_phases();
  time->set_phase(phase);
  time->set_wall_ms(wall_ms);
  time->set_cpu_ms(cpu_ms);
  time->set_tasks(tasks);
}

absl::Status succeedAction(QueueTransaction& queue, v1::Action& action,
                           const std::function<void(v1::Job&)>& fill_result) {
  action.set_state(v1::Job::SUCCEEDED);
  action.set_end_time_us(queue.now_us);
  for (const v1::PhaseTime& phase : action.phases()) {
    queue.effects.seen.phases.push_back({phase.phase(), phase.wall_ms() / 1e3});
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return forLivingJobs(queue, action.id(), [&](v1::Job& job) {
    copyProgress(action, job);
    fill_result(job);
    return changeState(queue, job, v1::Job::SUCCEEDED, nullptr);
  });
}

absl::Status failAction(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure) {
  action.set_state(v1::Job::FAILED);
  action.set_end_time_us(queue.now_us);
  *action.mutable_failure() = failure;
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  TESSERA_RETURN_IF_ERROR(forLivingJobs(queue, action.id(), [&](v1::Job& job) {
    copyProgress(action, job);
    return changeState(queue, job, v1::Job::FAILED, &failure);
  }));
  return releaseTasks(queue, action);
}

absl::Status failJobs(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure,
                      const std::function<bool(const v1::Job&)>& concerned) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, queue.tx.liveJobsOfAction(action.id()));
  // Nobody would be left to use the result.
  if (std::all_of(jobs.begin(), jobs.end(), concerned)) {
    return failAction(queue, action, failure);
  }
  for (v1::Job job : jobs) {
    if (concerned(job)) {
      copyProgress(action, job);
      TESSERA_RETURN_IF_ERROR(changeState(queue, std::move(job), v1::Job::FAILED, &failure));
    }
  }
  return absl::OkStatus();
}

absl::Status cancelActionIfUnwanted(QueueTransaction& queue, const std::string& action_id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(action_id));
  if (!isLiving(action)) {
    return absl::OkStatus();
  }
  if (const auto wanted = queue.tx.firstLiveJobOfAction(action_id); !absl::IsNotFound(wanted.status())) {
    return wanted.status();
  }
  action.set_state(v1::Job::CANCELLED);
  action.set_end_time_us(queue.now_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return releaseTasks(queue, action);
}

}  // namespace tessera::server
