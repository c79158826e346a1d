#include "server/services/signing_service.h"

#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/project_scope.h"

namespace tessera::server {

grpc::ServerUnaryReactor* SigningService::GetSigningKey(grpc::CallbackServerContext* context,
                                                        const v1::GetSigningKeyRequest* request,
                                                        v1::GetSigningKeyResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request, [this, response]() -> absl::Status {
    response->set_public_key(key_.publicKey());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SigningService::SignArtifact(grpc::CallbackServerContext* context,
                                                       const v1::SignArtifactRequest* request,
                                                       v1::SignArtifactResponse* response) {
  return answer(context, gate_, Right::kFetch, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkSha256("artifact_id", request->artifact_id()));
                  // An uploaded blob is no artifact: only artifacts that this service's workers assembled have a row.
                  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) {
                    return artifactOf(reader, caller, request->artifact_id()).status();
                  }));
                  TESSERA_ASSIGN_OR_RETURN(*response->mutable_signature(), key_.sign(request->artifact_id()));
                  response->set_public_key(key_.publicKey());
                  return absl::OkStatus();
                });
}

}  // namespace tessera::server
