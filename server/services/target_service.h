#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/target_catalog.h"
#include "tessera/v1/target_service.grpc.pb.h"

namespace tessera::server {

/// Looks up, lists, validates and registers descriptions of targets. Thread-safe.
class TargetService : public v1::TargetService::CallbackService {
 public:
  TargetService(TargetCatalog& targets, Gate& gate, Executor& executor)
      : targets_(targets), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* GetTarget(grpc::CallbackServerContext* context, const v1::GetTargetRequest* request,
                                      v1::GetTargetResponse* response) override;
  grpc::ServerUnaryReactor* ListTargets(grpc::CallbackServerContext* context, const v1::ListTargetsRequest* request,
                                        v1::ListTargetsResponse* response) override;
  grpc::ServerUnaryReactor* ValidateTarget(grpc::CallbackServerContext* context,
                                           const v1::ValidateTargetRequest* request,
                                           v1::ValidateTargetResponse* response) override;
  grpc::ServerUnaryReactor* RegisterTarget(grpc::CallbackServerContext* context,
                                           const v1::RegisterTargetRequest* request,
                                           v1::RegisterTargetResponse* response) override;

 private:
  TargetCatalog& targets_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
