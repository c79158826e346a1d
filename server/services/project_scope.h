#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/access/access.h"
#include "storage/store.h"

/// Things by id, of those that the caller may see. What is another project's is not there, in the same words.
namespace tessera::server {

inline absl::StatusOr<v1::Job> jobOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  auto job = reader.getJob(id);
  return job.ok() && !sees(caller, projectOf(*job)) ? notThere("job", id) : job;
}

inline absl::StatusOr<v1::TuningRecord> recordOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  auto record = reader.getRecord(id);
  return record.ok() && !sees(caller, projectOf(*record)) ? notThere("record", id) : record;
}

inline absl::StatusOr<v1::Artifact> artifactOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  const absl::StatusOr<std::string> project = oneProject(caller);
  return project.ok() ? reader.getArtifact(*project, id) : project.status();
}

/// Workers read what their tasks name, whoever's it is; an operator may ask for all projects'.
inline bool seesAllBlobs(const Caller& caller) { return caller.role == v1::WORKER || caller.every_project; }

/// Whether the caller may read the blob: its project has sent the bytes, or a worker made them for it.
inline absl::StatusOr<bool> mayRead(storage::Reader& reader, const Caller& caller, const std::string& sha256) {
  return seesAllBlobs(caller) ? true : reader.holdsBlob(caller.project, sha256);
}

}  // namespace tessera::server
