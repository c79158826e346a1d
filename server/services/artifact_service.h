#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "storage/store.h"
#include "tessera/v1/artifact.grpc.pb.h"

namespace tessera::server {

/// Looks up and lists the artifacts of the caller's project. CheckArtifact says whether an artifact can run on a host
/// with given CPU features. Thread-safe.
class ArtifactService : public v1::ArtifactService::CallbackService {
 public:
  ArtifactService(storage::Store& store, Gate& gate, Executor& executor)
      : store_(store), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* GetArtifact(grpc::CallbackServerContext* context, const v1::GetArtifactRequest* request,
                                        v1::GetArtifactResponse* response) override;
  grpc::ServerUnaryReactor* ListArtifacts(grpc::CallbackServerContext* context, const v1::ListArtifactsRequest* request,
                                          v1::ListArtifactsResponse* response) override;
  grpc::ServerUnaryReactor* CheckArtifact(grpc::CallbackServerContext* context, const v1::CheckArtifactRequest* request,
                                          v1::CheckArtifactResponse* response) override;

 private:
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
