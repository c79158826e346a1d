#include "server/services/operator_service.h"

#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"

namespace tessera::server {

grpc::ServerUnaryReactor* OperatorService::ListOperators(grpc::CallbackServerContext* context,
                                                         const v1::ListOperatorsRequest* request,
                                                         v1::ListOperatorsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkList(*request));
    TESSERA_ASSIGN_OR_RETURN(*response, operators_.list(listQuery(*request, "")));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
