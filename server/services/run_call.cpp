#include "server/services/run_call.h"

#include <utility>

#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/request_checks.h"

namespace tessera::server {

grpc::ServerUnaryReactor* RunCall::start(Gate::Admission admission, Scheduler& scheduler, storage::Store& store,
                                         Executor& executor, const Limits& limits, v1::CreateJobRequest request,
                                         Answer answer) {
  std::shared_ptr<RunCall> call(new RunCall(std::move(admission.caller), scheduler, store, executor, limits,
                                            std::move(request), std::move(answer)));
  call->keepAlive(std::move(admission.ticket));
  call->wake();
  return call.get();
}

void RunCall::OnCancel() {
  gone_ = true;
  wake();
}

void RunCall::OnDone() {
  scheduler_.notifier().forget(subscription_);
  release();
}

absl::Status RunCall::begin() {
  TESSERA_RETURN_IF_ERROR(checkCreateJob(request_, limits_));
  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller_));
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, scheduler_.createJob(request_, {}, project));
  job_id_ = job.id();
  ticket().concerns(job_id_);
  subscription_ = scheduler_.notifier().onJob(job_id_, waker());
  return absl::OkStatus();
}

void RunCall::advance() {
  if (finished_) {
    return;
  }
  if (gone_) {
    absl::Status status = absl::CancelledError("the client left");
    // The caller can request the result again by its request id.
    if (!job_id_.empty() && request_.request_id().empty()) {
      if (const auto job = scheduler_.cancelJob(job_id_); !job.ok()) {
        status = job.status();
      }
    }
    return finish(status);
  }
  if (job_id_.empty()) {
    if (const absl::Status status = begin(); !status.ok()) {
      return finish(status);
    }
  }
  v1::Job job;
  const absl::Status status = store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(job, reader.getJob(job_id_));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    return finish(status);
  }
  if (!isTerminal(job.state())) {
    return;
  }
  if (job.state() == v1::Job::SUCCEEDED) {
    answer_(job);
    return finish(absl::OkStatus());
  }
  finish(failureStatus(job.failure()));
}

void RunCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(finalStatus(status));
}

}  // namespace tessera::server
