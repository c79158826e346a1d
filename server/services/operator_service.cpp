#include "server/services/operator_service.h"

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerUnaryReactor* OperatorService::ListOperators(grpc::CallbackServerContext* context,
                                                         const v1::ListOperatorsRequest* request,
                                                         v1::ListOperatorsResponse* response) {
  return answer(context, gate_, Right::kLook, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkList(*request));
    TESSERA_ASSIGN(*response, operators_.list(listQuery(*request, "")));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
