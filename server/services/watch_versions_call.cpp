#include "server/services/watch_versions_call.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "server/request_checks.h"
#include "server/scheduler/jobs.h"
#include "server/services/own.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {
constexpr int kBatch = 64;
}  // namespace

grpc::ServerWriteReactor<v1::WatchArtifactResponse>* WatchVersionsCall::start(Gate::Admission admission,
                                                                              Wakeups& wakeups, storage::Store& store,
                                                                              Executor& executor,
                                                                              v1::WatchArtifactRequest request) {
  std::shared_ptr<WatchVersionsCall> call(
      new WatchVersionsCall(std::move(admission.caller), wakeups, store, executor, std::move(request)));
  call->keepAlive(std::move(admission.ticket));
  // Subscribed before the first look, so that no version falls in between.
  call->subscription_ = wakeups.onJob(call->request_.job_id(), call->poker());
  call->StartSendInitialMetadata();  // the client hears that somebody is there, though there be no version for long
  call->poke();
  return call.get();
}

WatchVersionsCall::WatchVersionsCall(Caller caller, Wakeups& wakeups, storage::Store& store, Executor& executor,
                                     v1::WatchArtifactRequest request)
    : PokedCall(executor),
      caller_(std::move(caller)),
      wakeups_(wakeups),
      store_(store),
      request_(std::move(request)),
      cursor_(request_.cursor()) {}

void WatchVersionsCall::OnWriteDone(bool ok) {
  if (!ok) {
    gone_ = true;
  }
  writing_ = false;
  poke();
}

void WatchVersionsCall::OnCancel() {
  gone_ = true;
  poke();
}

void WatchVersionsCall::OnDone() {
  wakeups_.forget(subscription_);
  release();
}

absl::Status WatchVersionsCall::fetch() {
  batch_.clear();
  next_ = 0;
  return store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN(const v1::Job job, jobOf(reader, caller_, request_.job_id()));
    if (!job.has_tune()) {
      return absl::InvalidArgumentError(absl::StrCat("job_id: ", job.id(), " is no TUNE job: it has no versions"));
    }
    job_ended_ = isTerminal(job.state());
    TESSERA_ASSIGN(batch_, versionsToSend(reader));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<v1::ArtifactVersion>> WatchVersionsCall::versionsToSend(storage::Reader& reader) {
  if (!request_.newest_only()) {
    return reader.versionsAfter(request_.job_id(), cursor_, kBatch);
  }
  std::vector<v1::ArtifactVersion> newest, some;
  do {
    TESSERA_ASSIGN(some, reader.versionsAfter(request_.job_id(), cursor_, kBatch));
    for (const v1::ArtifactVersion& version : some) {
      cursor_ = version.number();
      if (!version.held()) {
        newest = {version};
      }
    }
  } while (!some.empty());
  return newest;
}

void WatchVersionsCall::advance() {
  if (finished_ || writing_) {
    return;
  }
  if (gone_) {
    return finish(absl::CancelledError("the client left"));
  }
  if (next_ == batch_.size()) {
    absl::Status status = checkRange("cursor", request_.cursor(), 0, INT_MAX);
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
  v1::ArtifactVersion& version = batch_[next_++];
  cursor_ = std::max(cursor_, version.number());
  message_.mutable_version()->Swap(&version);
  writing_ = true;
  StartWrite(&message_);
}

void WatchVersionsCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(lastWord(status));
}

}  // namespace tessera::server
