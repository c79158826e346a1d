#include "server/services/watch_call.h"

#include <utility>

#include "server/request_checks.h"
#include "server/scheduler/jobs.h"
#include "server/services/own.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {
constexpr int kBatch = 128;
}  // namespace

grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchCall::start(Gate::Admission admission, Wakeups& wakeups,
                                                                 storage::Store& store, Executor& executor,
                                                                 v1::WatchJobRequest request) {
  std::shared_ptr<WatchCall> call(
      new WatchCall(std::move(admission.caller), wakeups, store, executor, std::move(request)));
  call->keepAlive(std::move(admission.ticket));
  // Subscribed before the first look, so that no change falls in between.
  call->subscription_ = wakeups.onJob(call->request_.id(), call->poker());
  call->poke();
  return call.get();
}

WatchCall::WatchCall(Caller caller, Wakeups& wakeups, storage::Store& store, Executor& executor,
                     v1::WatchJobRequest request)
    : PokedCall(executor),
      caller_(std::move(caller)),
      wakeups_(wakeups),
      store_(store),
      request_(std::move(request)),
      cursor_(request_.cursor()) {}

void WatchCall::OnWriteDone(bool ok) {
  if (!ok) {
    gone_ = true;
  }
  writing_ = false;
  poke();
}

void WatchCall::OnCancel() {
  gone_ = true;
  poke();
}

void WatchCall::OnDone() {
  wakeups_.forget(subscription_);
  release();
}

absl::Status WatchCall::fetch() {
  batch_.clear();
  next_ = 0;
  return store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN(const v1::Job job, jobOf(reader, caller_, request_.id()));
    job_ended_ = isTerminal(job.state());
    TESSERA_ASSIGN(batch_, reader.eventsAfter(request_.id(), cursor_, kBatch));
    return absl::OkStatus();
  });
}

void WatchCall::advance() {
  if (finished_ || writing_) {
    return;
  }
  if (gone_) {
    return finish(absl::CancelledError("the client left"));
  }
  if (next_ == batch_.size()) {
    absl::Status status = checkRange("cursor", request_.cursor(), 0, INT64_MAX);
    if (status.ok()) {
      status = fetch();
    }
    if (!status.ok()) {
      return finish(status);
    }
    if (batch_.empty()) {
      if (job_ended_) {
        finish(absl::OkStatus());
      }
      return;
    }
  }
  v1::JobEvent& event = batch_[next_++];
  cursor_ = event.sequence();
  message_.mutable_event()->Swap(&event);
  writing_ = true;
  StartWrite(&message_);
}

void WatchCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(lastWord(status));
}

}  // namespace tessera::server
