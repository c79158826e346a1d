#pragma once

#include "server/services/watch_stream.h"
#include "storage/store.h"
#include "tessera/v1/artifact_versions.pb.h"

namespace tessera::server {

/// One WatchArtifact stream: versions behind the cursor, until the job has ended. A choice that is made later is not
/// waited for.
class WatchVersionsCall : public WatchStream<v1::WatchArtifactResponse> {
 public:
  static grpc::ServerWriteReactor<v1::WatchArtifactResponse>* start(Gate::Admission admission, Notifier& notifier,
                                                                    storage::Store& store, Executor& executor,
                                                                    v1::WatchArtifactRequest request);

 private:
  WatchVersionsCall(Caller caller, Notifier& notifier, storage::Store& store, Executor& executor,
                    v1::WatchArtifactRequest request);
  absl::StatusOr<Batch> fetch() override;
  /// The next versions behind the cursor, which moves: for those that only want the newest, that one.
  absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsToSend(storage::Reader& reader);

  storage::Store& store_;
  const v1::WatchArtifactRequest request_;
  int cursor_;
};

}  // namespace tessera::server
