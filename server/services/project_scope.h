#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/access/access.h"
#include "storage/store.h"

/// Look-ups by id among the objects that the caller can see. An object of another project gives the same error as a
/// missing one.
namespace tessera::server {

inline absl::StatusOr<v1::Job> jobOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  auto job = reader.getJob(id);
  return job.ok() && !sees(caller, projectOf(*job)) ? notFound("job", id) : job;
}

inline absl::StatusOr<v1::TuningRecord> recordOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  auto record = reader.getRecord(id);
  return record.ok() && !sees(caller, projectOf(*record)) ? notFound("record", id) : record;
}

inline absl::StatusOr<v1::Artifact> artifactOf(storage::Reader& reader, const Caller& caller, const std::string& id) {
  const absl::StatusOr<std::string> project = oneProject(caller);
  return project.ok() ? reader.getArtifact(*project, id) : project.status();
}

/// Workers read the inputs of their tasks, of all projects. An operator may request all projects.
inline bool seesAllBlobs(const Caller& caller) { return caller.role == v1::WORKER || caller.all_projects; }

/// Whether the caller may read the blob: its project has uploaded the bytes, or a worker has produced them for it.
inline absl::StatusOr<bool> mayRead(storage::Reader& reader, const Caller& caller, const std::string& sha256) {
  return seesAllBlobs(caller) ? true : reader.mayReadBlob(caller.project, sha256);
}

}  // namespace tessera::server
