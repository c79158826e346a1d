#include "server/queue/jobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/stored_key.h"

namespace tessera::server {

std::string clientOf(const std::string& project, const std::string& client) {
  return storage::storedKey(project, client);
}

bool isTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

void observeEnd(QueueTransaction& queue, const v1::Job& job) {
  const auto* spec = v1::Job::descriptor()->FindFieldByNumber(job.spec_case());
  queue.effects.seen.ends.push_back({job.id(), job.request_id(), job.client(), spec != nullptr ? spec->name() : "",
                                     job.state(), job.failure().reason(), job.cached(),
                                     seconds(job.end_time_us() - job.create_time_us())});
}

absl::Status changeState(QueueTransaction& queue, v1::Job job, v1::Job::State state, const v1::Failure* failure) {
  if (isTerminal(job.state())) {
    return absl::InternalError(absl::StrCat("job ", job.id(), " is ", v1::Job::State_Name(job.state()),
                                            " and cannot become ", v1::Job::State_Name(state)));
  }
  // A running job ends.
  if (job.state() == v1::Job::RUNNING && queue.rules.quota_of &&
      queue.rules.quota_of(projectOf(job)).running_jobs() > 0) {
    ++queue.effects.tasks_ready;  // the project may now start another job
  }
  job.set_state(state);
  if (state == v1::Job::RUNNING) {
    job.set_start_time_us(queue.now_us);
  }
  if (isTerminal(state)) {
    job.set_end_time_us(queue.now_us);
  }
  v1::JobEvent event;
  event.mutable_state()->set_state(state);
  if (failure != nullptr) {
    *job.mutable_failure() = *failure;
    *event.mutable_state()->mutable_failure() = *failure;
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.updateJob(job));
  if (isTerminal(state)) {
    observeEnd(queue, job);
  }
  return appendEvent(queue, job.id(), std::move(event));
}

absl::StatusOr<std::vector<v1::JobEvent>> eventsOf(storage::Reader& reader, const v1::Job& job, int64_t cursor,
                                                   int limit) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> events, reader.eventsAfter(job.id(), cursor, limit));
  if (events.empty() && cursor == 0 && isTerminal(job.state())) {
    v1::JobEvent& only = events.emplace_back();
    only.set_job_id(job.id());
    only.set_sequence(1);
    only.set_time_us(job.end_time_us());
    only.mutable_state()->set_state(job.state());
  }
  return events;
}

absl::Status appendEvent(QueueTransaction& queue, const std::string& job_id, v1::JobEvent event) {
  event.set_job_id(job_id);
  event.set_time_us(queue.now_us);
  queue.effects.changed_jobs.insert(job_id);
  return queue.tx.appendEvent(std::move(event)).status();
}

absl::Status forLivingJobs(QueueTransaction& queue, const std::string& action_id,
                           const std::function<absl::Status(v1::Job&)>& change) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Job> jobs, queue.tx.liveJobsOfAction(action_id));
  for (v1::Job& job : jobs) {
    TESSERA_RETURN_IF_ERROR(change(job));
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
