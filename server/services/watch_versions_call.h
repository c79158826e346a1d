#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "server/scheduler/wakeups.h"
#include "server/services/calls.h"
#include "storage/store.h"
#include "tessera/v1/artifact_versions.pb.h"

namespace tessera::server {

/// One WatchArtifact stream: versions behind the cursor, from the store and in order, until the job has ended. A choice
/// that is made later is not waited for.
class WatchVersionsCall : public grpc::ServerWriteReactor<v1::WatchArtifactResponse>, public PokedCall {
 public:
  static grpc::ServerWriteReactor<v1::WatchArtifactResponse>* start(Gate::Admission admission, Wakeups& wakeups,
                                                                    storage::Store& store, Executor& executor,
                                                                    v1::WatchArtifactRequest request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WatchVersionsCall(Caller caller, Wakeups& wakeups, storage::Store& store, Executor& executor,
                    v1::WatchArtifactRequest request);
  void advance() override;
  absl::Status fetch();
  /// The next versions behind the cursor: of those that only want the newest, that one.
  absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsToSend(storage::Reader& reader);
  void finish(const absl::Status& status);

  const Caller caller_;
  Wakeups& wakeups_;
  storage::Store& store_;
  const v1::WatchArtifactRequest request_;
  Wakeups::Token subscription_ = 0;
  int cursor_;
  std::vector<v1::ArtifactVersion> batch_;
  size_t next_ = 0;         ///< first version of the batch that is not yet written
  bool job_ended_ = false;  ///< as of the last fetch
  bool finished_ = false;
  v1::WatchArtifactResponse message_;  ///< must outlive its write
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
