#pragma once

#include <string>

#include "absl/status/status.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// The objects that a request may refer to: those of its project.
struct ProjectInputs {
  storage::Reader& reader;
  const std::string& project;
};

/// Replaces the job id of an execute or profile request by the id and version of that job's artifact.
absl::Status nameArtifact(storage::Reader& reader, const std::string& project, v1::CreateJobRequest& request);

/// Checks that everything the request refers to exists with the stated size, and that the artifact accepts the given
/// inputs.
absl::Status requireInputs(const ProjectInputs& own, const v1::CreateJobRequest& request);

}  // namespace tessera::server
