#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/gateway/upstream.h"

/// What lies in blobs as protobuf, as JSON.
namespace tessera::server::gateway {

/// The answer of a finished analyze job: a CheckReport or an Explanation. FAILED_PRECONDITION when the job is none or
/// has not ended; RESOURCE_EXHAUSTED past WebLimits::kMaxReportBytes.
absl::StatusOr<std::string> reportJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id);

/// The plan within an artifact as an Explanation without `before`; its workloads come without IR. Only the plan is read
/// of the file, not its weights.
absl::StatusOr<std::string> planJson(Upstream& upstream, const WebCaller& caller, const std::string& artifact_id);

}  // namespace tessera::server::gateway
