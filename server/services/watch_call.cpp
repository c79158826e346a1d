#include "server/services/watch_call.h"

#include <iterator>
#include <utility>
#include <vector>

#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/request_checks.h"
#include "server/services/project_scope.h"

namespace tessera::server {
namespace {
constexpr int kEventsAtOnce = 128;
}  // namespace

grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchCall::start(Gate::Admission admission, Notifier& notifier,
                                                                 storage::Store& store, Executor& executor,
                                                                 v1::WatchJobRequest request) {
  std::shared_ptr<WatchCall> call(
      new WatchCall(std::move(admission.caller), notifier, store, executor, std::move(request)));
  call->begin(std::move(admission.ticket), call->request_.id());
  return call.get();
}

WatchCall::WatchCall(Caller caller, Notifier& notifier, storage::Store& store, Executor& executor,
                     v1::WatchJobRequest request)
    : WatchStream(std::move(caller), notifier, executor),
      store_(store),
      request_(std::move(request)),
      cursor_(request_.cursor()) {}

absl::StatusOr<WatchCall::Batch> WatchCall::fetch() {
  TESSERA_RETURN_IF_ERROR(checkRange("cursor", request_.cursor(), 0, INT64_MAX));
  Batch batch;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const v1::Job job, jobOf(reader, caller(), request_.id()));
    batch.job_ended = isTerminal(job.state());
    TESSERA_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> events, eventsOf(reader, job, cursor_, kEventsAtOnce));
    batch.full = std::ssize(events) == kEventsAtOnce;
    for (v1::JobEvent& event : events) {
      cursor_ = event.sequence();
      batch.messages.emplace_back().mutable_event()->Swap(&event);
    }
    return absl::OkStatus();
  }));
  return batch;
}

}  // namespace tessera::server
