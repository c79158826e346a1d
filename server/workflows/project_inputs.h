#pragma once

#include <string>

#include "absl/status/status.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// What a request may refer to: its project's.
struct ProjectInputs {
  storage::Reader& reader;
  const std::string& project;
};

/// Says which artifact a run of a job's artifact is of: from then on it is that one's.
absl::Status nameArtifact(storage::Reader& reader, const std::string& project, v1::CreateJobRequest& request);

/// Everything a request refers to is there, of the size it says, and an artifact can be run with the inputs given.
absl::Status requireInputs(const ProjectInputs& own, const v1::CreateJobRequest& request);

}  // namespace tessera::server
