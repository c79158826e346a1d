#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/scheduler/wakeups.h"
#include "server/services/calls.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// One WatchJob stream. The events come from the store, in order, from the cursor on; memory holds one
/// batch of them. It ends after the terminal event, or at once when that lies before the cursor.
class WatchCall : public grpc::ServerWriteReactor<v1::WatchJobResponse>, public PokedCall {
 public:
  static grpc::ServerWriteReactor<v1::WatchJobResponse>* start(Gate::Admission admission, Wakeups& wakeups,
                                                               storage::Store& store, Executor& executor,
                                                               v1::WatchJobRequest request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WatchCall(Caller caller, Wakeups& wakeups, storage::Store& store, Executor& executor, v1::WatchJobRequest request);
  void advance() override;
  absl::Status fetch();
  void finish(const absl::Status& status);

  const Caller caller_;
  Wakeups& wakeups_;
  storage::Store& store_;
  const v1::WatchJobRequest request_;
  Wakeups::Token subscription_ = 0;
  int64_t cursor_;
  std::vector<v1::JobEvent> batch_;
  size_t next_ = 0;         ///< first event of the batch that is not yet written
  bool job_ended_ = false;  ///< as of the last fetch
  bool finished_ = false;
  v1::WatchJobResponse message_;  ///< must outlive its write
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
