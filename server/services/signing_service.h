#pragma once

#include "proto/signing/artifact_signature.h"
#include "server/access/gate.h"
#include "server/executor.h"
#include "storage/store.h"
#include "tessera/v1/signing_service.grpc.pb.h"

namespace tessera::server {

/// Signs artifacts that the service built, with its own key, and returns the public key. Thread-safe.
class SigningService : public v1::SigningService::CallbackService {
 public:
  SigningService(const SigningKey& key, storage::Store& store, Gate& gate, Executor& executor)
      : key_(key), store_(store), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* GetSigningKey(grpc::CallbackServerContext* context, const v1::GetSigningKeyRequest* request,
                                          v1::GetSigningKeyResponse* response) override;
  grpc::ServerUnaryReactor* SignArtifact(grpc::CallbackServerContext* context, const v1::SignArtifactRequest* request,
                                         v1::SignArtifactResponse* response) override;

 private:
  const SigningKey& key_;
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
