#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "storage/server_registry.h"
#include "tessera/v1/server_service.grpc.pb.h"

namespace tessera::server {

/// Lists the servers on the database. Thread-safe.
class ServerService : public v1::ServerService::CallbackService {
 public:
  ServerService(storage::ServerRegistry& registry, Gate& gate, Executor& executor)
      : registry_(registry), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* ListServers(grpc::CallbackServerContext* context, const v1::ListServersRequest* request,
                                        v1::ListServersResponse* response) override;

 private:
  storage::ServerRegistry& registry_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
