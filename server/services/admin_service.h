#pragma once

#include "server/access/gate.h"
#include "server/access/token_book.h"
#include "server/executor.h"
#include "server/retention/collector.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.grpc.pb.h"

namespace tessera::server {

/// Administration by operators: access tokens, garbage collection, integrity checks of the storage, deletion and
/// pinning of items, and quotas. Thread-safe.
class AdminService : public v1::AdminService::CallbackService {
 public:
  AdminService(TokenBook& tokens, Quotas& quotas, Collector& collector, const v1::RetentionPolicy& policy,
               storage::Store& store, Gate& gate, Executor& executor)
      : tokens_(tokens),
        quotas_(quotas),
        collector_(collector),
        policy_(policy),
        store_(store),
        gate_(gate),
        executor_(executor) {}

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;

  grpc::ServerUnaryReactor* CollectGarbage(grpc::CallbackServerContext* context,
                                           const v1::CollectGarbageRequest* request,
                                           v1::CollectGarbageResponse* response) override;
  grpc::ServerUnaryReactor* VerifyStorage(grpc::CallbackServerContext* context, const v1::VerifyStorageRequest* request,
                                          v1::VerifyStorageResponse* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* context, const v1::PinRequest* request,
                                v1::PinResponse* response) override;

  grpc::ServerUnaryReactor* ListQuotas(grpc::CallbackServerContext* context, const v1::ListQuotasRequest* request,
                                       v1::ListQuotasResponse* response) override;

 private:
  TokenBook& tokens_;
  Quotas& quotas_;
  Collector& collector_;
  const v1::RetentionPolicy& policy_;
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
