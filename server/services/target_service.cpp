#include "server/services/target_service.h"

#include "compiler/target/target.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"

namespace tessera::server {

grpc::ServerUnaryReactor* TargetService::GetTarget(grpc::CallbackServerContext* context,
                                                   const v1::GetTargetRequest* request,
                                                   v1::GetTargetResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("name", request->name(), Limits::kMaxNameLength, false));
                  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller));
                  TESSERA_ASSIGN_OR_RETURN(*response, targets_.get(project, request->name()));
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* TargetService::ListTargets(grpc::CallbackServerContext* context,
                                                     const v1::ListTargetsRequest* request,
                                                     v1::ListTargetsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  TESSERA_ASSIGN_OR_RETURN(*response, targets_.list(listQuery(*request, scopeOf(caller))));
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* TargetService::ValidateTarget(grpc::CallbackServerContext* context,
                                                        const v1::ValidateTargetRequest* request,
                                                        v1::ValidateTargetResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request, [request, response]() {
    for (v1::TargetProblem& problem : compiler::validateTarget(request->target())) {
      *response->add_problems() = std::move(problem);
    }
    response->set_hash(compiler::targetHash(request->target()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* TargetService::RegisterTarget(grpc::CallbackServerContext* context,
                                                        const v1::RegisterTargetRequest* request,
                                                        v1::RegisterTargetResponse* response) {
  return answer(context, gate_, Right::kSubmit, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller));
                  TESSERA_ASSIGN_OR_RETURN(*response, targets_.add(project, request->target()));
                  return absl::OkStatus();
                });
}

}  // namespace tessera::server
