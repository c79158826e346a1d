#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/queue/workflow.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/target.pb.h"

/// Artifacts of earlier compilations, by action key (server/action_key.h).
namespace tessera::server {

/// The artifact stored under this key if its bytes are there; otherwise `lookup` gives the reason.
absl::StatusOr<EarlierResult> cachedArtifact(storage::Reader& reader, const std::string& key);

/// Ends the job as SUCCEEDED at its creation time, with this artifact.
void answerFromCache(const v1::Artifact& artifact, v1::Job& job);

/// The components of a spec's key, and those in which it differs from the nearest earlier action of the project.
absl::StatusOr<v1::ExplainKeyResponse> explainKey(storage::Reader& reader, const std::string& project,
                                                  const v1::CompileSpec& spec, const v1::Target& target,
                                                  const std::string& compiler_version);

}  // namespace tessera::server
