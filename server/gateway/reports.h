#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/gateway/upstream.h"

/// What is read in pieces or lies in blobs, whole and as JSON.
namespace tessera::server::gateway {

/// The answer of a finished analyze job: a CheckReport or an Explanation. FAILED_PRECONDITION when the job is none or
/// has not ended; RESOURCE_EXHAUSTED past WebLimits::kMaxReportBytes.
absl::StatusOr<std::string> reportJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id);

/// The plan within an artifact as an Explanation without `before`; its workloads come without IR. Only the plan is read
/// of the file, not its weights.
absl::StatusOr<std::string> planJson(Upstream& upstream, const WebCaller& caller, const std::string& artifact_id);

/// Who worked on a job and when, in Chrome's trace format, of the attempts that have ended; of a job with more than
/// WebLimits::kMaxTraceSpans the first ones, and `otherData.more` is true.
absl::StatusOr<std::string> timelineJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id);

}  // namespace tessera::server::gateway
