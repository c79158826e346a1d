#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/queue/scheduler.h"
#include "server/services/job_service.h"
#include "storage/store.h"
#include "tessera/v1/artifact_versions.grpc.pb.h"

namespace tessera::server {

/// Artifacts of tune jobs and their versions. Creates tune jobs through `jobs`.
class VersionsService : public v1::ArtifactVersionService::CallbackService {
 public:
  VersionsService(JobService& jobs, Scheduler& scheduler, storage::Store& store, Gate& gate, Executor& executor)
      : jobs_(jobs), scheduler_(scheduler), store_(store), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* CreateTuning(grpc::CallbackServerContext* context, const v1::CreateTuningRequest* request,
                                         v1::CreateTuningResponse* response) override;
  grpc::ServerUnaryReactor* ListArtifactVersions(grpc::CallbackServerContext* context,
                                                 const v1::ListArtifactVersionsRequest* request,
                                                 v1::ListArtifactVersionsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchArtifactResponse>* WatchArtifact(grpc::CallbackServerContext* context,
                                                                     const v1::WatchArtifactRequest* request) override;
  grpc::ServerUnaryReactor* ChooseArtifactVersion(grpc::CallbackServerContext* context,
                                                  const v1::ChooseArtifactVersionRequest* request,
                                                  v1::ChooseArtifactVersionResponse* response) override;

 private:
  JobService& jobs_;
  Scheduler& scheduler_;
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
