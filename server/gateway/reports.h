#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/gateway/upstream.h"

/// Answers that are read in parts, or from blobs, as whole JSON documents.
namespace tessera::server::gateway {

/// The result of a finished analyze job: a CheckReport or an Explanation. FAILED_PRECONDITION if the job is of another
/// kind or has not ended; RESOURCE_EXHAUSTED beyond WebLimits::kMaxReportBytes.
absl::StatusOr<std::string> reportJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id);

/// The plan in an artifact, as an Explanation without `before` and without the IR of workloads. Reads only the plan
/// from the file, not the weights.
absl::StatusOr<std::string> planJson(Upstream& upstream, const WebCaller& caller, const std::string& artifact_id);

/// Which worker ran each finished attempt of a job, and when, in Chrome's trace format. A job with more than
/// WebLimits::kMaxTraceSpans attempts gives the first ones, with `otherData.more` set.
absl::StatusOr<std::string> timelineJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id);

}  // namespace tessera::server::gateway
