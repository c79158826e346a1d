#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/access/quotas.h"
#include "server/queue/actions.h"
#include "server/queue/jobs.h"
#include "server/queue/scheduler.h"
#include "server/queue/tasks.h"
#include "server/queue/uses.h"

namespace tessera::server {
namespace {

v1::Job newJob(const Submission& submission, int64_t now_us, const Rules& rules) {
  // A request's own limit, or the rule's.
  const auto given = [](int64_t wanted_us, int64_t otherwise_us) { return wanted_us > 0 ? wanted_us : otherwise_us; };
  const v1::CreateJobRequest& request = submission.request;
  v1::Job job;
  job.set_state(v1::Job::QUEUED);
  job.set_request_id(request.request_id());
  job.set_project(submission.project);
  job.set_action_key(submission.key);
  submission.describe(job);
  job.set_create_time_us(now_us);
  job.set_queue_deadline_us(now_us + given(request.queue_timeout_us(), rules.queue_timeout_us));
  job.set_deadline_us(now_us + given(request.total_timeout_us(), rules.total_timeout_us));
  job.set_run_timeout_us(given(request.run_timeout_us(), rules.run_timeout_us));
  job.set_client(request.client());
  job.set_priority(request.priority());
  *job.mutable_labels() = request.labels();
  return job;
}

/// Stores a new job, with the event of its first state. A job that ends as it is created has no stored event, see
/// eventsOf().
absl::Status insertJob(QueueTransaction& queue, const Submission& submission, const v1::Job& job,
                       const std::string& action_id) {
  TESSERA_RETURN_IF_ERROR(queue.tx.insertJob(job, submission.request_hash, action_id));
  if (isTerminal(job.state())) {
    return absl::OkStatus();
  }
  v1::JobEvent event;
  event.mutable_state()->set_state(job.state());
  return appendEvent(queue, job.id(), std::move(event));
}

/// Stores a job that the result of earlier work has ended already.
absl::Status answerWith(QueueTransaction& queue, const Submission& submission, const v1::Artifact& artifact,
                        const v1::Job& job) {
  TESSERA_RETURN_IF_ERROR(touchAll(queue, submission.project, artifact));
  std::string action_id;
  if (auto built_by = queue.tx.getActionOfJob(artifact.job_id()); built_by.ok() && !built_by->empty()) {
    action_id = *std::move(built_by);
  }
  observeEnd(queue, job);
  queue.tx.announceLastWrite();
  return insertJob(queue, submission, job, action_id);
}

/// A living action that the job may join. Work started without the cache serves everybody; work started with it serves
/// only requests that permit the cache.
absl::StatusOr<std::optional<v1::Action>> shareable(QueueTransaction& queue, const Submission& submission) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> living, queue.tx.liveActionsByKey(submission.key));
  for (const v1::Action& action : living) {
    if (action.skip_cache() || !submission.request.skip_cache()) {
      return action;
    }
  }
  return std::nullopt;
}

/// Raises an action to the priority and run timeout of one more job. Returns whether that changed anything.
absl::StatusOr<bool> raise(QueueTransaction& queue, v1::Action& action, const v1::Job& job) {
  if (job.priority() < action.priority() && job.run_timeout_us() <= action.run_timeout_us()) {
    return false;
  }
  bool raised = job.run_timeout_us() > action.run_timeout_us();
  action.set_run_timeout_us(std::max(action.run_timeout_us(), job.run_timeout_us()));
  if (job.priority() >= action.priority()) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t ticket,
                             queue.tx.nextTicket(job.priority(), clientOf(job.project(), job.client())));
    // Take a ticket only if it is used, since taking one moves the client's next ticket back.
    if (job.priority() > action.priority() || ticket < action.ticket()) {
      TESSERA_RETURN_IF_ERROR(queue.tx.takeTicket(job.priority(), clientOf(job.project(), job.client())).status());
      action.set_priority(job.priority());
      action.set_ticket(ticket);
      raised = true;
    }
  }
  return raised;
}

/// Adds the job to a living action.
absl::Status join(QueueTransaction& queue, const Submission& submission, v1::Action action, v1::Job& job) {
  // joined_job_id names a job of the same work, for the client's information.
  if (auto other = queue.tx.firstLiveJobOfAction(action.id()); other.ok()) {
    job.set_joined_job_id(*other);
  } else if (!absl::IsNotFound(other.status())) {
    return other.status();
  }
  TESSERA_RETURN_IF_ERROR(insertJob(queue, submission, job, action.id()));
  if (action.state() == v1::Job::RUNNING) {
    *job.mutable_progress() = action.progress();
    *job.mutable_phases() = action.phases();
    TESSERA_RETURN_IF_ERROR(changeState(queue, job, v1::Job::RUNNING, nullptr));
    TESSERA_ASSIGN_OR_RETURN(job, queue.tx.getJob(job.id()));
  }
  TESSERA_ASSIGN_OR_RETURN(const bool raised, raise(queue, action, job));
  if (!raised) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  // Waiting tasks have copies of priority, ticket and timeout.
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, queue.tx.tasksOfAction(action.id()));
  for (const v1::Task& task : tasks) {
    TESSERA_RETURN_IF_ERROR(raiseUrgency(queue, action, task));
  }
  return absl::OkStatus();
}

absl::Status startNew(QueueTransaction& queue, const Submission& submission, const v1::Job& job) {
  v1::Action action;
  action.set_id(queue.ids.next("act"));
  action.set_key(submission.key);
  action.set_project(submission.project);
  action.set_state(v1::Job::QUEUED);
  action.set_job_id(job.id());
  action.set_create_time_us(queue.now_us);
  action.set_priority(job.priority());
  TESSERA_ASSIGN_OR_RETURN(const int64_t ticket,
                           queue.tx.takeTicket(job.priority(), clientOf(job.project(), job.client())));
  action.set_ticket(ticket);
  action.set_run_timeout_us(job.run_timeout_us());
  action.set_skip_cache(submission.request.skip_cache());
  submission.describe(queue.rules, job, action);
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  TESSERA_RETURN_IF_ERROR(insertJob(queue, submission, job, action.id()));
  return submission.begin(queue, std::move(action), job);
}

/// Reports the number of tasks ahead of a queued job, once, when it is created.
absl::Status announcePosition(QueueTransaction& queue, const std::string& action_id, const v1::Job& job) {
  if (job.state() != v1::Job::QUEUED) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, queue.tx.tasksOfAction(action_id));
  if (tasks.empty() || tasks.front().state() != v1::Task::READY) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const int position, queue.tx.queuePosition(tasks.front().id()));
  v1::JobEvent event;
  event.mutable_queue()->set_position(position);
  return appendEvent(queue, job.id(), std::move(event));
}

/// Checks whether the project may have one more job that begins in this state. The number of running jobs among those
/// that wait is enforced when tasks are leased; a job that joins a running action does not wait.
absl::Status checkQuotas(QueueTransaction& queue, const std::string& project, v1::Job::State state) {
  if (!queue.rules.quota_of) {
    return absl::OkStatus();
  }
  constexpr int64_t kSoonUs = 5'000'000;  // a retry soon makes sense, since jobs end all the time
  const v1::Quota quota = queue.rules.quota_of(project);
  TESSERA_ASSIGN_OR_RETURN(const storage::Usage usage, queue.tx.usageOf(project));
  const char* fix = "wait for some of the project's jobs to end, or cancel some";
  if (quota.queued_jobs() > 0 && state == v1::Job::QUEUED && usage.queued_jobs >= quota.queued_jobs()) {
    return quotaExceeded(project, "queued_jobs", quota.queued_jobs(), static_cast<double>(usage.queued_jobs), kSoonUs,
                         fix);
  }
  if (quota.running_jobs() > 0 && state == v1::Job::RUNNING && usage.running_jobs >= quota.running_jobs()) {
    return quotaExceeded(project, "running_jobs", quota.running_jobs(), static_cast<double>(usage.running_jobs),
                         kSoonUs, fix);
  }
  if (quota.stored_bytes() > 0 && usage.blob_bytes >= quota.stored_bytes()) {
    return outOfBytes(project, quota.stored_bytes(), usage);  // there would be no space for the result
  }
  return absl::OkStatus();
}

/// requireInputs(); if the project lacks a file, stores the files that came with the request, and checks again.
absl::Status holdInputs(QueueTransaction& queue, Submission& submission,
                        const std::function<absl::Status()>& store_files) {
  absl::Status status = submission.requireInputs(queue.tx);
  if (!store_files || failureOf(status).reason() != v1::Failure::MISSING_BLOB) {
    return status;
  }
  TESSERA_RETURN_IF_ERROR(store_files());
  return submission.requireInputs(queue.tx);
}

/// The transaction of createJob(): repeated request, cached result, join, or new action. Sets `job` to the stored job.
absl::Status admit(QueueTransaction& queue, Submission& submission, const std::function<absl::Status()>& store_files,
                   v1::Job& job) {
  auto earlier = queue.tx.getJobByRequestId(submission.project, submission.request.request_id());
  if (earlier.ok()) {
    TESSERA_ASSIGN_OR_RETURN(const std::string hash, queue.tx.getRequestHash(earlier->id()));
    if (hash != submission.request_hash) {
      return absl::AlreadyExistsError(absl::StrCat("request_id ", submission.request.request_id(), " made job ",
                                                   earlier->id(),
                                                   " from another request; use a new request_id for new content"));
    }
    job = *std::move(earlier);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(earlier.status())) {
    return earlier.status();
  }
  TESSERA_RETURN_IF_ERROR(holdInputs(queue, submission, store_files));
  TESSERA_RETURN_IF_ERROR(touchAll(queue, submission.project, submission.digests));
  job = newJob(submission, queue.now_us, queue.rules);
  job.set_id(queue.ids.next("job"));
  if (!submission.key.empty()) {
    Lookup lookup = Lookup::kSkipped;
    if (!submission.request.skip_cache()) {
      TESSERA_ASSIGN_OR_RETURN(const EarlierResult result, submission.findResult(queue.tx, job));
      lookup = result.lookup;
      if (result.artifact) {
        queue.effects.seen.answers.push_back({Cache::kArtifact, lookup});
        return answerWith(queue, submission, *result.artifact, job);
      }
    }
    TESSERA_ASSIGN_OR_RETURN(const std::optional<v1::Action> living, shareable(queue, submission));
    queue.effects.seen.answers.push_back({Cache::kArtifact, living ? Lookup::kInFlight : lookup});
    if (living) {
      TESSERA_RETURN_IF_ERROR(checkQuotas(queue, submission.project, living->state()));
      return join(queue, submission, *living, job);
    }
  }
  TESSERA_RETURN_IF_ERROR(checkQuotas(queue, submission.project, v1::Job::QUEUED));
  TESSERA_RETURN_IF_ERROR(startNew(queue, submission, job));
  TESSERA_ASSIGN_OR_RETURN(const std::string action_id, queue.tx.getActionOfJob(job.id()));
  return announcePosition(queue, action_id, job);
}

/// The result of createJob() with validate_only; stores nothing.
absl::StatusOr<v1::Job> tried(storage::Store& store, Submission& submission, int64_t now_us, const Rules& rules) {
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(store.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(submission.requireInputs(reader));
    job = newJob(submission, now_us, rules);
    return submission.key.empty() || submission.request.skip_cache() ? absl::OkStatus()
                                                                     : submission.findResult(reader, job).status();
  }));
  return job;
}

/// Sets the fields that only a job that will be stored needs.
void complete(Submission& submission, IdSource& ids) {
  if (submission.request.request_id().empty()) {
    submission.request.set_request_id(ids.next("req"));
  }
  submission.digests = digestsIn(submission.request);
}

}  // namespace

absl::StatusOr<v1::Job> Scheduler::createJob(v1::CreateJobRequest request, const v1::Target& target,
                                             const std::string& project, v1::TuneMode mode,
                                             const std::function<absl::Status()>& store_files) {
  const std::unique_ptr<Submission> submission = workflow_.submit(std::move(request), target, project, mode, rules_);
  if (submission->request.validate_only()) {
    return tried(store_, *submission, clock_.nowMicros(), rules_);
  }
  complete(*submission, ids_);
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(
      transact([&](QueueTransaction& queue) { return admit(queue, *submission, store_files, job); }));
  return job;
}

void Scheduler::createJobThen(v1::CreateJobRequest request, const v1::Target& target, const std::string& project,
                              std::function<absl::Status()> store_files, std::function<bool()> left, Executor& executor,
                              std::function<void(absl::StatusOr<v1::Job>)> done) {
  struct Kept {
    std::unique_ptr<Submission> submission;
    v1::Job job;
  };
  const auto kept = std::make_shared<Kept>(
      Kept{workflow_.submit(std::move(request), target, project, v1::TUNE_MODE_UNSPECIFIED, rules_), {}});
  if (kept->submission->request.validate_only()) {
    return done(tried(store_, *kept->submission, clock_.nowMicros(), rules_));
  }
  complete(*kept->submission, ids_);
  transactAsync(
      [kept, store_files = std::move(store_files), left = std::move(left)](QueueTransaction& queue) {
        return left() ? absl::CancelledError("the client left")
                      : admit(queue, *kept->submission, store_files, kept->job);
      },
      executor,
      [kept, done = std::move(done)](const absl::Status& status) {
        if (status.ok()) {
          done(std::move(kept->job));
        } else {
          done(status);
        }
      });
}

}  // namespace tessera::server
