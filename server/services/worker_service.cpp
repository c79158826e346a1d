#include "server/services/worker_service.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/lease_call.h"

namespace tessera::server {

grpc::ServerUnaryReactor* WorkerService::RegisterWorker(grpc::CallbackServerContext* context,
                                                        const v1::RegisterWorkerRequest* request,
                                                        v1::RegisterWorkerResponse* response) {
  return answer(context, gate_, Right::kWork, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkWorker(*request));
                  if (absl::StartsWith(request->worker_id(), kLocalWorkerPrefix) && caller.name != kLocalWorkers) {
                    return absl::PermissionDeniedError(
                        absl::StrCat("worker_id: names that begin with ", kLocalWorkerPrefix,
                                     " are those of the server's own workers; name yours otherwise (--id)"));
                  }
                  TESSERA_ASSIGN_OR_RETURN(*response, scheduler_.registerWorker(*request, caller.name));
                  return operators_.announce(*request);
                });
}

grpc::ServerUnaryReactor* WorkerService::LeaseTask(grpc::CallbackServerContext* context,
                                                   const v1::LeaseTaskRequest* request,
                                                   v1::LeaseTaskResponse* response) {
  auto admission = gate_.admit(*context, Right::kWork, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerUnaryReactor>(admission.status());
  }
  return LeaseCall::start(std::move(admission->ticket), scheduler_, blobs_, executor_, *request, admission->caller.name,
                          response);
}

grpc::ServerUnaryReactor* WorkerService::Heartbeat(grpc::CallbackServerContext* context,
                                                   const v1::HeartbeatRequest* request,
                                                   v1::HeartbeatResponse* response) {
  return answer(context, gate_, Right::kWork, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkHeartbeat(*request));
    TESSERA_ASSIGN_OR_RETURN(*response, scheduler_.heartbeat(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* WorkerService::ReportTask(grpc::CallbackServerContext* context,
                                                    const v1::ReportTaskRequest* request,
                                                    v1::ReportTaskResponse* response) {
  return answer(context, gate_, Right::kWork, executor_, *request, [this, request]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkReport(*request, limits_));
    v1::ReportTaskRequest report = *request;
    TESSERA_RETURN_IF_ERROR(storeEnclosed(*report.mutable_result()));
    return scheduler_.reportTask(report);
  });
}

absl::Status WorkerService::storeEnclosed(v1::TaskResult& result) {
  for (v1::OutputFile& file : *result.mutable_files()) {
    if (file.data().empty()) {
      continue;
    }
    v1::Digest found;
    found.set_sha256(sha256Hex(file.data()));
    found.set_size_bytes(static_cast<int64_t>(file.data().size()));
    if (found.sha256() != file.digest().sha256()) {
      return fieldError("result.files.data", absl::StrCat("bytes with SHA-256 ", found.sha256()),
                        absl::StrCat("those of its digest, ", file.digest().sha256()));
    }
    if (!blobs_.becomesRow(found.size_bytes())) {
      TESSERA_RETURN_IF_ERROR(blobs_.put(found, file.data()));
      file.clear_data();
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
