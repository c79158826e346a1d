#include "server/services/server_service.h"

#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"

namespace tessera::server {

grpc::ServerUnaryReactor* ServerService::ListServers(grpc::CallbackServerContext* context,
                                                     const v1::ListServersRequest* request,
                                                     v1::ListServersResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkList(*request));
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Server> page, registry_.list(listQuery(*request, "")));
    response->mutable_servers()->Assign(page.items.begin(), page.items.end());
    response->set_next_page_token(page.next_page_token);
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
