#include "server/services/fleet_service.h"

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerUnaryReactor* FleetService::ListWorkers(grpc::CallbackServerContext* context,
                                                    const v1::ListWorkersRequest* request,
                                                    v1::ListWorkersResponse* response) {
  return answer(context, gate_, Right::kLook, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkList(*request));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(const storage::Page<v1::Worker> page, reader.listWorkers(listQuery(*request)));
      response->mutable_workers()->Assign(page.items.begin(), page.items.end());
      response->set_next_page_token(page.next_page_token);
      return absl::OkStatus();
    });
  });
}

grpc::ServerUnaryReactor* FleetService::DrainWorker(grpc::CallbackServerContext* context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkText("worker_id", request->worker_id(), Limits::kMaxWorkerIdLength, false));
    TESSERA_ASSIGN(*response->mutable_worker(), scheduler_.drainWorker(request->worker_id(), request->drain()));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
