#include "server/services/artifact_service.h"

#include "absl/strings/str_cat.h"
#include "compiler/target/host.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/project_scope.h"

namespace tessera::server {
grpc::ServerUnaryReactor* ArtifactService::GetArtifact(grpc::CallbackServerContext* context,
                                                       const v1::GetArtifactRequest* request,
                                                       v1::GetArtifactResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkSha256("id", request->id()));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(*response->mutable_artifact(), artifactOf(reader, caller, request->id()));
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* ArtifactService::ListArtifacts(grpc::CallbackServerContext* context,
                                                         const v1::ListArtifactsRequest* request,
                                                         v1::ListArtifactsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Artifact> page,
                                             reader.listArtifacts(listQuery(*request, scopeOf(caller))));
                    response->mutable_artifacts()->Assign(page.items.begin(), page.items.end());
                    response->set_next_page_token(page.next_page_token);
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* ArtifactService::CheckArtifact(grpc::CallbackServerContext* context,
                                                         const v1::CheckArtifactRequest* request,
                                                         v1::CheckArtifactResponse* response) {
  return answer(
      context, gate_, Right::kRead, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(checkSha256("id", request->id()));
        TESSERA_RETURN_IF_ERROR(checkText("host.triple", request->host().triple(), Limits::kMaxNameLength, false));
        return store_.read([&](storage::Reader& reader) -> absl::Status {
          TESSERA_ASSIGN_OR_RETURN(const v1::Artifact artifact, artifactOf(reader, caller, request->id()));
          std::vector<v1::Failure> problems;
          if (artifact.manifest().simulated()) {
            v1::Failure& failure = problems.emplace_back();
            failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
            failure.set_message(absl::StrCat("the artifact is a program for the described chip ",
                                             artifact.manifest().target_name(), ", which no host runs"));
            failure.set_fix("`tessera run FILE` simulates it");
          } else if (artifact.manifest().opencl()) {
            v1::Failure& failure = problems.emplace_back();
            failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
            failure.set_message(absl::StrCat("the artifact is a program for OpenCL devices (",
                                             artifact.manifest().target_name(),
                                             "), which a host's processor does not run"));
            failure.set_fix("`tessera run FILE` runs it on the first OpenCL device of its machine");
          } else {
            problems = compiler::hostProblems(artifact.manifest().code(), request->host());
          }
          response->set_compatible(problems.empty());
          response->mutable_problems()->Assign(problems.begin(), problems.end());
          return absl::OkStatus();
        });
      });
}

}  // namespace tessera::server
