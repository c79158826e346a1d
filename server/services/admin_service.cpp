#include "server/services/admin_service.h"

#include <map>

#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/project_scope.h"
#include "storage/stored_key.h"

namespace tessera::server {

grpc::ServerUnaryReactor* AdminService::CreateToken(grpc::CallbackServerContext* context,
                                                    const v1::CreateTokenRequest* request,
                                                    v1::CreateTokenResponse* response) {
  return answer(
      context, gate_, Right::kAdminister, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(checkText("name", request->name(), Limits::kMaxClientLength, false));
        TESSERA_RETURN_IF_ERROR(checkRange("role", request->role(), v1::READER, v1::Role_MAX));
        TESSERA_RETURN_IF_ERROR(checkRange("lifetime_us", request->lifetime_us(), 0, Limits::kMaxTokenLifetimeUs));
        if (!request->project().empty() && !isProjectName(request->project())) {
          return fieldError("project", request->project(), "a lower-case letter, then at most 62 of a-z, 0-9, '-'");
        }
        v1::CreateTokenRequest complete = *request;
        if (complete.project().empty()) {
          TESSERA_ASSIGN_OR_RETURN(*complete.mutable_project(), oneProject(caller));
        }
        TESSERA_ASSIGN_OR_RETURN(*response, tokens_.create(complete));
        return absl::OkStatus();
      },
      response);
}

grpc::ServerUnaryReactor* AdminService::ListTokens(grpc::CallbackServerContext* context,
                                                   const v1::ListTokensRequest* request,
                                                   v1::ListTokensResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, response]() -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::AccessToken> tokens, tokens_.list());
    response->mutable_tokens()->Assign(tokens.begin(), tokens.end());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::RevokeToken(grpc::CallbackServerContext* context,
                                                    const v1::RevokeTokenRequest* request,
                                                    v1::RevokeTokenResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkText("id", request->id(), Limits::kMaxNameLength, false));
    TESSERA_ASSIGN_OR_RETURN(*response->mutable_token(), tokens_.revoke(request->id()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::CollectGarbage(grpc::CallbackServerContext* context,
                                                       const v1::CollectGarbageRequest* request,
                                                       v1::CollectGarbageResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    const v1::RetentionPolicy& policy = request->has_policy() ? request->policy() : policy_;
    for (const int64_t keep_us :
         {policy.jobs_us(), policy.events_us(), policy.artifacts_us(), policy.objects_us(), policy.records_us(),
          policy.blobs_us(), policy.artifact_bytes(), policy.object_bytes()}) {
      TESSERA_RETURN_IF_ERROR(checkRange("policy", keep_us, 0, INT64_MAX));
    }
    TESSERA_ASSIGN_OR_RETURN(*response, collector_.collect(policy, request->dry_run()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::VerifyStorage(grpc::CallbackServerContext* context,
                                                      const v1::VerifyStorageRequest* request,
                                                      v1::VerifyStorageResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(*response, collector_.verify(request->read_blobs()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::Delete(grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
                                               v1::DeleteResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request,
                [this, request](const Caller& caller) -> absl::Status {
                  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller));
                  return collector_.erase(*request, project);
                });
}

grpc::ServerUnaryReactor* AdminService::Pin(grpc::CallbackServerContext* context, const v1::PinRequest* request,
                                            v1::PinResponse* response) {
  return answer(
      context, gate_, Right::kAdminister, executor_, *request, [this, request](const Caller& caller) -> absl::Status {
        const bool job = request->what_case() == v1::PinRequest::kJobId;
        const std::string& id = job ? request->job_id() : request->artifact_id();
        TESSERA_RETURN_IF_ERROR(checkText(job ? "job_id" : "artifact_id", id, Limits::kMaxNameLength, false));
        return store_.transact([&](storage::Transaction& tx) -> absl::Status {
          if (job) {
            TESSERA_RETURN_IF_ERROR(tx.getJob(id).status());
            return tx.setPin(storage::Kind::kJob, id, !request->unpin());
          }
          TESSERA_RETURN_IF_ERROR(artifactOf(tx, caller, id).status());
          return tx.setPin(storage::Kind::kArtifact, storage::storedKey(caller.project, id), !request->unpin());
        });
      });
}

grpc::ServerUnaryReactor* AdminService::ListQuotas(grpc::CallbackServerContext* context,
                                                   const v1::ListQuotasRequest* request,
                                                   v1::ListQuotasResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, response]() -> absl::Status {
    std::map<std::string, storage::Usage> projects;
    for (const auto& [project, quota] : quotas_.named()) {
      projects[project].project = project;
    }
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<storage::Usage> usages, reader.usages());
      for (const storage::Usage& usage : usages) {
        projects[usage.project] = usage;
      }
      return absl::OkStatus();
    }));
    for (const auto& [project, usage] : projects) {
      v1::ListQuotasResponse::Usage& shown = *response->add_projects();
      shown.set_project(project);
      *shown.mutable_quota() = quotas_.of(project);
      shown.set_queued_jobs(usage.queued_jobs);
      shown.set_running_jobs(usage.running_jobs);
      shown.set_blobs(usage.blobs);
      shown.set_stored_bytes(usage.blob_bytes);
    }
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
