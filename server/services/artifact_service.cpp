#include "server/services/artifact_service.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// The architecture of a triple: what comes before the first '-'.
std::string architecture(const std::string& triple) { return triple.substr(0, triple.find('-')); }

v1::Failure incompatible(const std::string& attribute, const std::string& needed, const std::string& found,
                         const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
  failure.set_message(absl::StrCat("the artifact needs ", attribute, " ", needed, ", the host has ", found));
  failure.set_attribute(attribute);
  failure.set_found(found);
  failure.set_accepted(needed);
  failure.set_fix(fix);
  return failure;
}

}  // namespace

std::vector<v1::Failure> hostProblems(const v1::CodeForm& code, const v1::HostInfo& host) {
  std::vector<v1::Failure> problems;
  const std::string fix = "compile for a target this host is of, e.g. --target host on that machine";
  if (architecture(code.triple()) != architecture(host.triple())) {
    problems.push_back(incompatible("architecture", architecture(code.triple()), architecture(host.triple()), fix));
    return problems;  // features of another architecture say nothing
  }
  const std::set<std::string> present(host.features().begin(), host.features().end());
  for (const std::string& feature : code.features()) {
    if (!present.contains(feature)) {
      problems.push_back(incompatible("feature", feature, "none of it", fix));
    }
  }
  return problems;
}

grpc::ServerUnaryReactor* ArtifactService::GetArtifact(grpc::CallbackServerContext* context,
                                                       const v1::GetArtifactRequest* request,
                                                       v1::GetArtifactResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkSha256("id", request->id()));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(*response->mutable_artifact(), reader.getArtifact(request->id()));
      return absl::OkStatus();
    });
  });
}

grpc::ServerUnaryReactor* ArtifactService::ListArtifacts(grpc::CallbackServerContext* context,
                                                         const v1::ListArtifactsRequest* request,
                                                         v1::ListArtifactsResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkList(*request));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(const storage::Page<v1::Artifact> page, reader.listArtifacts(listQuery(*request)));
      response->mutable_artifacts()->Assign(page.items.begin(), page.items.end());
      response->set_next_page_token(page.next_page_token);
      return absl::OkStatus();
    });
  });
}

grpc::ServerUnaryReactor* ArtifactService::CheckArtifact(grpc::CallbackServerContext* context,
                                                         const v1::CheckArtifactRequest* request,
                                                         v1::CheckArtifactResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkSha256("id", request->id()));
    TESSERA_TRY(checkText("host.triple", request->host().triple(), Limits::kMaxNameLength, false));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(const v1::Artifact artifact, reader.getArtifact(request->id()));
      const std::vector<v1::Failure> problems = hostProblems(artifact.manifest().code(), request->host());
      response->set_compatible(problems.empty());
      response->mutable_problems()->Assign(problems.begin(), problems.end());
      return absl::OkStatus();
    });
  });
}

}  // namespace tessera::server
