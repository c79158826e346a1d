#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"

namespace tessera::client {

/// Returns all versions of a tune job's artifact, oldest first, and the job's mode.
absl::StatusOr<v1::ListArtifactVersionsResponse> listVersions(Channel& channel, const std::string& job_id);

/// Returns the artifact that a run of the job should use: the version of this number, or with 0 the chosen one. For a
/// compile job, its artifact as version 0. FAILED_PRECONDITION if there is none yet.
absl::StatusOr<v1::ArtifactVersion> versionToRun(Channel& channel, const std::string& job_id, int number);

/// Calls `on_version` with the current version of a tune job's artifact and with each replacement, until the job ends,
/// `stop` is set (within a second) or `on_version` returns an error. Survives restarts of the server. After a quota's
/// rejection, also one returned by `on_version`, waits and repeats the call. Fails if the server does not answer for
/// `patience`.
absl::Status watchVersions(Channel& channel, const std::string& job_id, const std::atomic<bool>& stop,
                           const std::function<absl::Status(const v1::ArtifactVersion&)>& on_version,
                           std::chrono::milliseconds patience = std::chrono::minutes(2));

}  // namespace tessera::client
