#include "server/services/worker_service.h"

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/lease_call.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerUnaryReactor* WorkerService::RegisterWorker(grpc::CallbackServerContext* context,
                                                        const v1::RegisterWorkerRequest* request,
                                                        v1::RegisterWorkerResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkWorker(*request));
    TESSERA_ASSIGN(*response, scheduler_.registerWorker(*request));
    return operators_.announce(*request);
  });
}

grpc::ServerUnaryReactor* WorkerService::LeaseTask(grpc::CallbackServerContext* context,
                                                   const v1::LeaseTaskRequest* request,
                                                   v1::LeaseTaskResponse* response) {
  return LeaseCall::start(scheduler_, executor_, *request, response);
}

grpc::ServerUnaryReactor* WorkerService::Heartbeat(grpc::CallbackServerContext* context,
                                                   const v1::HeartbeatRequest* request,
                                                   v1::HeartbeatResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkHeartbeat(*request));
    TESSERA_ASSIGN(*response, scheduler_.heartbeat(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* WorkerService::ReportTask(grpc::CallbackServerContext* context,
                                                    const v1::ReportTaskRequest* request,
                                                    v1::ReportTaskResponse* response) {
  return answer(context, executor_, [this, request]() -> absl::Status {
    TESSERA_TRY(checkReport(*request, limits_));
    return scheduler_.reportTask(*request);
  });
}

}  // namespace tessera::server
