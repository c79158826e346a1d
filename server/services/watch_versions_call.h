#pragma once

#include "server/services/watch_stream.h"
#include "storage/store.h"
#include "tessera/v1/artifact_versions.pb.h"

namespace tessera::server {

/// One WatchArtifact stream: sends the versions after the cursor, and new ones until the job has ended. Versions that
/// ChooseArtifactVersion adds after that are not sent.
class WatchVersionsCall : public WatchStream<v1::WatchArtifactResponse> {
 public:
  static grpc::ServerWriteReactor<v1::WatchArtifactResponse>* start(Gate::Admission admission, Notifier& notifier,
                                                                    storage::Store& store, Executor& executor,
                                                                    v1::WatchArtifactRequest request);

 private:
  WatchVersionsCall(Caller caller, Notifier& notifier, storage::Store& store, Executor& executor,
                    v1::WatchArtifactRequest request);
  absl::StatusOr<Batch> fetch() override;
  /// Returns the versions after the cursor, and advances it; only the newest one if the request says so.
  absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsToSend(storage::Reader& reader);

  storage::Store& store_;
  const v1::WatchArtifactRequest request_;
  int cursor_;
};

}  // namespace tessera::server
