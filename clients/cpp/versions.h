#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"

namespace tessera::client {

/// All versions of a tune job's artifact, the first one first, and its mode.
absl::StatusOr<v1::ListArtifactVersionsResponse> listVersions(Channel& channel, const std::string& job_id);

/// What a run of the job's artifact runs: the version of that number, with 0 the one that programs should run; the
/// artifact of a compile job as version 0. FAILED_PRECONDITION when there is none yet.
absl::StatusOr<v1::ArtifactVersion> versionToRun(Channel& channel, const std::string& job_id, int number);

/// Hears of the version of a tune job's artifact that programs should run, and of each that takes its place, until the
/// job has ended, `stop` is set (within a second) or `on_version` answers an error. Survives restarts of the server and
/// waits where a quota says so, of `on_version` too, which then is called again; gives up when nothing was heard of the
/// server for `patience`.
absl::Status watchVersions(Channel& channel, const std::string& job_id, const std::atomic<bool>& stop,
                           const std::function<absl::Status(const v1::ArtifactVersion&)>& on_version,
                           std::chrono::milliseconds patience = std::chrono::minutes(2));

}  // namespace tessera::client
