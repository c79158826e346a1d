#include "server/gateway/routes.h"

namespace tessera::server::gateway {
namespace {

// Creating and revoking tokens, deletion and backups are available by gRPC only: a browser is not the place for them.
constexpr Route kRoutes[] = {
    {"GET", "/v1/jobs", "tessera.v1.JobService.ListJobs"},
    {"POST", "/v1/jobs", "tessera.v1.JobService.CreateJob"},
    {"POST", "/v1/jobs:explainKey", "tessera.v1.JobService.ExplainKey"},
    {"GET", "/v1/jobs/{id}", "tessera.v1.JobService.GetJob"},
    {"POST", "/v1/jobs/{id}:cancel", "tessera.v1.JobService.CancelJob"},
    {"GET", "/v1/jobs/{id}:watch", "tessera.v1.JobService.WatchJob", AnswerKind::kEvents},
    {"GET", "/v1/jobs/{id}/report", "tessera.v1.JobService.GetJob", AnswerKind::kReport},
    {"GET", "/v1/jobs/{id}/trace", "tessera.v1.JobService.WatchJob", AnswerKind::kTrace},
    {"GET", "/v1/jobs/{job_id}/versions", "tessera.v1.ArtifactVersionService.ListArtifactVersions"},
    {"POST", "/v1/jobs/{job_id}/versions:choose", "tessera.v1.ArtifactVersionService.ChooseArtifactVersion"},
    {"GET", "/v1/artifacts", "tessera.v1.ArtifactService.ListArtifacts"},
    {"GET", "/v1/artifacts/{id}", "tessera.v1.ArtifactService.GetArtifact"},
    {"GET", "/v1/artifacts/{id}/plan", "tessera.v1.ArtifactService.GetArtifact", AnswerKind::kPlan},
    {"POST", "/v1/artifacts/{id}:check", "tessera.v1.ArtifactService.CheckArtifact"},
    {"GET", "/v1/records", "tessera.v1.RecordService.ListRecords"},
    {"GET", "/v1/records:best", "tessera.v1.RecordService.BestRecords"},
    {"GET", "/v1/records:statistics", "tessera.v1.RecordService.RecordStatistics"},
    {"GET", "/v1/records/{id}", "tessera.v1.RecordService.GetRecord"},
    {"GET", "/v1/targets", "tessera.v1.TargetService.ListTargets"},
    {"POST", "/v1/targets", "tessera.v1.TargetService.RegisterTarget"},
    {"POST", "/v1/targets:validate", "tessera.v1.TargetService.ValidateTarget"},
    {"GET", "/v1/targets/{name}", "tessera.v1.TargetService.GetTarget"},
    {"GET", "/v1/workers", "tessera.v1.FleetService.ListWorkers"},
    {"GET", "/v1/workers/{id}", "tessera.v1.FleetService.GetWorker"},
    {"GET", "/v1/workers:wanted", "tessera.v1.FleetService.ListWantedWorkers"},
    {"GET", "/v1/tasks", "tessera.v1.FleetService.ListTasks"},
    {"POST", "/v1/workers/{worker_id}:drain", "tessera.v1.FleetService.DrainWorker"},
    {"GET", "/v1/servers", "tessera.v1.ServerService.ListServers"},
    {"GET", "/v1/operators", "tessera.v1.OperatorService.ListOperators"},
    {"POST", "/v1/blobs:findMissing", "tessera.v1.BlobService.FindMissingBlobs"},
    {"GET", "/v1/blobs/{digest.sha256}:queryUpload", "tessera.v1.BlobService.QueryUpload"},
    {"GET", "/v1/tokens", "tessera.v1.AdminService.ListTokens"},
    {"POST", "/v1/storage:verify", "tessera.v1.AdminService.VerifyStorage"},
};

/// Removes the text before the next of `ends` from `text`, and returns it.
std::string_view take(std::string_view& text, std::string_view ends) {
  const size_t end = text.find_first_of(ends);
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(head.size());
  return head;
}

/// Whether `path` matches the pattern; sets the variables.
bool fits(std::string_view pattern, std::string_view path, std::vector<std::pair<std::string, std::string>>& values) {
  while (!pattern.empty()) {
    if (pattern.front() != '{') {
      if (path.empty() || path.front() != pattern.front()) {
        return false;
      }
      pattern.remove_prefix(1);
      path.remove_prefix(1);
      continue;
    }
    const size_t close = pattern.find('}');
    const std::string_view field = pattern.substr(1, close - 1);
    pattern.remove_prefix(close + 1);
    const std::string_view value = take(path, "/:");
    if (value.empty()) {
      return false;
    }
    values.emplace_back(field, value);
  }
  return path.empty();
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

std::optional<Match> match(std::string_view verb, std::string_view path, std::string* allowed) {
  for (const Route& route : kRoutes) {
    Match found{&route, {}};
    if (!fits(route.pattern, path, found.variables)) {
      continue;
    }
    if (route.verb == verb) {
      return found;
    }
    if (allowed != nullptr) {
      *allowed = route.verb;
    }
  }
  return std::nullopt;
}

}  // namespace tessera::server::gateway
