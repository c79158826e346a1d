#include "server/services/watch_versions_call.h"

#include <climits>
#include <iterator>
#include <utility>
#include <vector>

#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/request_checks.h"
#include "server/services/project_scope.h"

namespace tessera::server {
namespace {
constexpr int kVersionsAtOnce = 64;
}  // namespace

grpc::ServerWriteReactor<v1::WatchArtifactResponse>* WatchVersionsCall::start(Gate::Admission admission,
                                                                              Notifier& notifier, storage::Store& store,
                                                                              Executor& executor,
                                                                              v1::WatchArtifactRequest request) {
  std::shared_ptr<WatchVersionsCall> call(
      new WatchVersionsCall(std::move(admission.caller), notifier, store, executor, std::move(request)));
  call->begin(std::move(admission.ticket), call->request_.job_id());
  return call.get();
}

WatchVersionsCall::WatchVersionsCall(Caller caller, Notifier& notifier, storage::Store& store, Executor& executor,
                                     v1::WatchArtifactRequest request)
    : WatchStream(std::move(caller), notifier, executor),
      store_(store),
      request_(std::move(request)),
      cursor_(request_.cursor()) {}

absl::StatusOr<WatchVersionsCall::Batch> WatchVersionsCall::fetch() {
  TESSERA_RETURN_IF_ERROR(checkRange("cursor", request_.cursor(), 0, INT_MAX));
  Batch batch;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const v1::Job job, jobOf(reader, caller(), request_.job_id()));
    if (!job.has_tune()) {
      return absl::InvalidArgumentError(absl::StrCat("job_id: ", job.id(), " is no TUNE job: it has no versions"));
    }
    batch.job_ended = isTerminal(job.state());
    TESSERA_ASSIGN_OR_RETURN(std::vector<v1::ArtifactVersion> versions, versionsToSend(reader));
    batch.full = std::ssize(versions) == kVersionsAtOnce;
    for (v1::ArtifactVersion& version : versions) {
      batch.messages.emplace_back().mutable_version()->Swap(&version);
    }
    return absl::OkStatus();
  }));
  return batch;
}

absl::StatusOr<std::vector<v1::ArtifactVersion>> WatchVersionsCall::versionsToSend(storage::Reader& reader) {
  std::vector<v1::ArtifactVersion> chosen, some;
  do {
    TESSERA_ASSIGN_OR_RETURN(some, reader.versionsAfter(request_.job_id(), cursor_, kVersionsAtOnce));
    if (!some.empty()) {
      cursor_ = some.back().number();
    }
    if (!request_.newest_only()) {
      return some;
    }
    for (const v1::ArtifactVersion& version : some) {
      if (!version.held()) {
        chosen = {version};
      }
    }
  } while (!some.empty());
  return chosen;
}

}  // namespace tessera::server
