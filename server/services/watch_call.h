#pragma once

#include <cstdint>

#include "server/services/watch_stream.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// One WatchJob stream: events from the cursor on. Ends after the terminal event, or at once if that is before the
/// cursor.
class WatchCall : public WatchStream<v1::WatchJobResponse> {
 public:
  static grpc::ServerWriteReactor<v1::WatchJobResponse>* start(Gate::Admission admission, Notifier& notifier,
                                                               storage::Store& store, Executor& executor,
                                                               v1::WatchJobRequest request);

 private:
  WatchCall(Caller caller, Notifier& notifier, storage::Store& store, Executor& executor, v1::WatchJobRequest request);
  absl::StatusOr<Batch> fetch() override;

  storage::Store& store_;
  const v1::WatchJobRequest request_;
  int64_t cursor_;
};

}  // namespace tessera::server
