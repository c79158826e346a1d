#include "server/services/versions_service.h"

#include <climits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/project_scope.h"
#include "server/services/watch_versions_call.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

/// The page token is the number of the page's last version.
absl::StatusOr<int> lastOfPageBefore(const std::string& page_token) {
  int last = 0;
  if (page_token.empty() || (absl::SimpleAtoi(page_token, &last) && last > 0)) {
    return last;
  }
  return fieldError("page_token", "something else", "next_page_token of the previous answer",
                    "start again without a page_token");
}

}  // namespace

grpc::ServerUnaryReactor* VersionsService::CreateTuning(grpc::CallbackServerContext* context,
                                                        const v1::CreateTuningRequest* request,
                                                        v1::CreateTuningResponse* response) {
  return answer(
      context, gate_, Right::kSubmit, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        if (!request->job().has_tune()) {
          return absl::InvalidArgumentError("job: CreateTuning makes TUNE jobs; set job.tune");
        }
        TESSERA_RETURN_IF_ERROR(checkRange("mode", request->mode(), v1::TuneMode_MIN, v1::TuneMode_MAX));
        TESSERA_ASSIGN_OR_RETURN(*response->mutable_job(), jobs_.submit(request->job(), caller, request->mode()));
        return absl::OkStatus();
      },
      response);
}

grpc::ServerUnaryReactor* VersionsService::ListArtifactVersions(grpc::CallbackServerContext* context,
                                                                const v1::ListArtifactVersionsRequest* request,
                                                                v1::ListArtifactVersionsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("job_id", request->job_id(), Limits::kMaxNameLength, false));
                  TESSERA_RETURN_IF_ERROR(checkPageSize(request->page_size()));
                  TESSERA_ASSIGN_OR_RETURN(const int last, lastOfPageBefore(request->page_token()));
                  const int size = request->page_size() == 0 ? 50 : std::min(request->page_size(), 1000);
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_RETURN_IF_ERROR(jobOf(reader, caller, request->job_id()).status());
                    TESSERA_ASSIGN_OR_RETURN(const v1::ArtifactRollout series, reader.getRollout(request->job_id()));
                    response->set_mode(series.mode());
                    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::ArtifactVersion> versions,
                                             reader.versionsAfter(request->job_id(), last, size));
                    response->mutable_versions()->Assign(versions.begin(), versions.end());
                    if (!versions.empty() && versions.back().number() < series.versions()) {
                      response->set_next_page_token(absl::StrCat(versions.back().number()));
                    }
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerWriteReactor<v1::WatchArtifactResponse>* VersionsService::WatchArtifact(
    grpc::CallbackServerContext* context, const v1::WatchArtifactRequest* request) {
  auto admission = gate_.admit(*context, Right::kRead, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::WatchArtifactResponse>>(admission.status());
  }
  return WatchVersionsCall::start(*std::move(admission), scheduler_.notifier(), store_, executor_, *request);
}

grpc::ServerUnaryReactor* VersionsService::ChooseArtifactVersion(grpc::CallbackServerContext* context,
                                                                 const v1::ChooseArtifactVersionRequest* request,
                                                                 v1::ChooseArtifactVersionResponse* response) {
  return answer(context, gate_, Right::kSubmit, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("job_id", request->job_id(), Limits::kMaxNameLength, false));
                  TESSERA_RETURN_IF_ERROR(checkRange("number", request->number(), 0, INT_MAX));
                  TESSERA_RETURN_IF_ERROR(jobs_.checkOwner(request->job_id(), caller));
                  return scheduler_.transact([&](QueueTransaction& queue) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(*response->mutable_version(),
                                             chooseVersion(queue, request->job_id(), request->number()));
                    return absl::OkStatus();
                  });
                });
}

}  // namespace tessera::server
