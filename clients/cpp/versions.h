#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "clients/cpp/channel.h"

namespace tessera::client {

/// Hears of the versions of a tune job's artifact, the first one first, until the job has ended, `stop` is set (within
/// a second) or `on_version` answers an error. Survives restarts of the server; gives up when it stays away for
/// `patience`.
absl::Status watchVersions(Channel& channel, const std::string& job_id, const std::atomic<bool>& stop,
                           const std::function<absl::Status(const v1::ArtifactVersion&)>& on_version,
                           std::chrono::milliseconds patience = std::chrono::minutes(2));

}  // namespace tessera::client
