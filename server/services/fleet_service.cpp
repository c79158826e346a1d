#include "server/services/fleet_service.h"

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// Workers serve all projects: who is no operator sees that they are there, and which of their own tasks they have.
v1::Worker shownTo(storage::Reader& reader, const Caller& caller, v1::Worker worker) {
  if (caller.role == v1::OPERATOR) {
    return worker;
  }
  const google::protobuf::RepeatedPtrField<std::string> ids = worker.task_ids();
  worker.clear_task_ids();
  for (const std::string& id : ids) {
    if (const auto task = reader.getTask(id); task.ok() && sees(caller, projectOf(*task))) {
      worker.add_task_ids(id);
    }
  }
  return worker;
}

}  // namespace

grpc::ServerUnaryReactor* FleetService::ListWorkers(grpc::CallbackServerContext* context,
                                                    const v1::ListWorkersRequest* request,
                                                    v1::ListWorkersResponse* response) {
  return answer(context, gate_, Right::kLook, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_TRY(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN(const storage::Page<v1::Worker> page, reader.listWorkers(listQuery(*request, "")));
                    for (const v1::Worker& worker : page.items) {
                      *response->add_workers() = shownTo(reader, caller, worker);
                    }
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
