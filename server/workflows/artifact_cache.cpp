#include "server/workflows/artifact_cache.h"

#include <map>
#include <utility>
#include <vector>

#include "proto/support/status_macros.h"
#include "server/action_key.h"

namespace tessera::server {
namespace {

/// Names of the components that differ in an earlier action. Compared by name, since actions of earlier releases may
/// lack some.
std::vector<std::string> differing(const std::vector<v1::KeyComponent>& components, const v1::Action& action) {
  std::map<std::string, std::string> earlier;
  for (const v1::KeyComponent& component : action.components()) {
    earlier[component.name()] = component.hash();
  }
  std::vector<std::string> names;
  for (const v1::KeyComponent& component : components) {
    if (const auto found = earlier.find(component.name());
        found == earlier.end() || found->second != component.hash()) {
      names.push_back(component.name());
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<EarlierResult> cachedArtifact(storage::Reader& reader, const std::string& key) {
  auto artifact = reader.artifactByKey(key);
  if (absl::IsNotFound(artifact.status())) {
    return EarlierResult{Lookup::kNew, std::nullopt};
  }
  TESSERA_RETURN_IF_ERROR(artifact.status());
  TESSERA_ASSIGN_OR_RETURN(const bool present, reader.hasBlob(artifact->blob().sha256()));
  return present ? EarlierResult{Lookup::kStored, *std::move(artifact)} : EarlierResult{Lookup::kDamaged, std::nullopt};
}

void answerFromCache(const v1::Artifact& artifact, v1::Job& job) {
  job.set_state(v1::Job::SUCCEEDED);
  job.set_cached(true);
  job.set_start_time_us(job.create_time_us());
  job.set_end_time_us(job.create_time_us());
  v1::CompileResult* result = job.mutable_compile_result();
  result->set_artifact_id(artifact.id());
  *result->mutable_artifact() = artifact.blob();
  result->set_workloads(artifact.manifest().kernels());  // one kernel per workload
  result->set_workloads_reused(artifact.manifest().kernels());
}

absl::StatusOr<v1::ExplainKeyResponse> explainKey(storage::Reader& reader, const std::string& project,
                                                  const v1::CompileSpec& spec, const v1::Target& target,
                                                  const std::string& compiler_version) {
  const std::string key = actionKey(project, spec, target, compiler_version);
  const std::vector<v1::KeyComponent> components = keyComponents(project, spec, target, compiler_version);
  v1::ExplainKeyResponse response;
  response.set_action_key(key);
  response.mutable_components()->Assign(components.begin(), components.end());
  TESSERA_ASSIGN_OR_RETURN(const EarlierResult hit, cachedArtifact(reader, key));
  response.set_hit(hit.artifact.has_value());
  // Nearly all actions share the compiler and the schema, so these rows are only candidates.
  constexpr int kCandidates = 200;
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> actions,
                           reader.nearestActions(project, components, kCandidates));
  size_t fewest = components.size() + 1;
  for (const v1::Action& action : actions) {
    const std::vector<std::string> names = differing(components, action);
    if (names.size() < fewest) {
      fewest = names.size();
      response.set_nearest_job_id(action.job_id());
      response.mutable_differing()->Assign(names.begin(), names.end());
    }
  }
  return response;
}

}  // namespace tessera::server
