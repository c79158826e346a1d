#pragma once

#include "server/access/gate.h"
#include "server/access/token_book.h"
#include "server/executor.h"
#include "tessera/v1/admin_service.grpc.pb.h"

namespace tessera::server {

class AdminService : public v1::AdminService::CallbackService {
 public:
  AdminService(TokenBook& tokens, Gate& gate, Executor& executor) : tokens_(tokens), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;

 private:
  TokenBook& tokens_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
