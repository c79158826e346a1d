#include "server/services/admin_service.h"

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerUnaryReactor* AdminService::CreateToken(grpc::CallbackServerContext* context,
                                                    const v1::CreateTokenRequest* request,
                                                    v1::CreateTokenResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkText("name", request->name(), Limits::kMaxClientLength, false));
    TESSERA_TRY(checkRange("role", request->role(), v1::READER, v1::Role_MAX));
    TESSERA_TRY(checkRange("lifetime_us", request->lifetime_us(), 0, Limits::kMaxTokenLifetimeUs));
    TESSERA_ASSIGN(*response, tokens_.create(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::ListTokens(grpc::CallbackServerContext* context,
                                                   const v1::ListTokensRequest* request,
                                                   v1::ListTokensResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, response] {
    const std::vector<v1::AccessToken> tokens = tokens_.list();
    response->mutable_tokens()->Assign(tokens.begin(), tokens.end());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::RevokeToken(grpc::CallbackServerContext* context,
                                                    const v1::RevokeTokenRequest* request,
                                                    v1::RevokeTokenResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkText("id", request->id(), Limits::kMaxNameLength, false));
    TESSERA_ASSIGN(*response->mutable_token(), tokens_.revoke(request->id()));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
