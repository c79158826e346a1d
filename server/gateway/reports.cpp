#include "server/gateway/reports.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/job_timeline.h"
#include "proto/messages/plan_view.h"
#include "proto/support/status_macros.h"
#include "server/gateway/blob_entry.h"
#include "server/gateway/event_stream.h"
#include "server/gateway/transcoding.h"
#include "server/gateway/web_limits.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server::gateway {
namespace {

absl::Status damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat(what, " is damaged; `tessera admin verify` says what else is"));
}

template <typename Message>
absl::StatusOr<std::string> asJson(const std::string& bytes, const std::string& what) {
  Message message;
  if (!message.ParseFromString(bytes)) {
    return damaged(what);
  }
  return toJson(message);
}

absl::StatusOr<v1::Job> readJob(Upstream& upstream, const WebCaller& caller, const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::GetJobResponse response;
  TESSERA_RETURN_IF_ERROR(upstream.call("tessera.v1.JobService.GetJob", caller, request, response));
  return std::move(*response.mutable_job());
}

/// The event stream of a running job has no end. After this time without an event it has caught up; the first event may
/// take longer.
constexpr std::chrono::milliseconds kSilence{100};

}  // namespace

absl::StatusOr<std::string> reportJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, readJob(upstream, caller, job_id));
  if (!job.has_analyze_result()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " has no report: it is ",
                     job.has_analyze() ? absl::StrCat("an analysis that is ", v1::Job::State_Name(job.state()))
                                       : std::string("no analysis")));
  }
  const v1::Digest& report = job.analyze_result().report();
  if (report.size_bytes() > WebLimits::kMaxReportBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the report has ", report.size_bytes(), " bytes, at most ",
                                                     WebLimits::kMaxReportBytes, " are shown here; `tessera explain` ",
                                                     "shows all of it"));
  }
  // The size that a worker stated is no limit.
  TESSERA_ASSIGN_OR_RETURN(const std::string bytes,
                           upstream.read(caller, report.sha256(), 0, WebLimits::kMaxReportBytes));
  const std::string what = absl::StrCat("the report of job ", job_id);
  return job.analyze().question() == v1::AnalyzeSpec::CHECK ? asJson<v1::CheckReport>(bytes, what)
                                                            : asJson<v1::Explanation>(bytes, what);
}

absl::StatusOr<std::string> planJson(Upstream& upstream, const WebCaller& caller, const std::string& artifact_id) {
  v1::GetArtifactRequest request;
  request.set_id(artifact_id);
  v1::GetArtifactResponse response;
  TESSERA_RETURN_IF_ERROR(upstream.call("tessera.v1.ArtifactService.GetArtifact", caller, request, response));
  const v1::Digest& file = response.artifact().blob();
  const auto read = [&](int64_t offset, int64_t length) {
    return upstream.read(caller, file.sha256(), offset, length);
  };
  TESSERA_ASSIGN_OR_RETURN(const std::string bytes,
                           entryOf(file.size_bytes(), read, "plan.pb", WebLimits::kMaxReportBytes));
  v1::Explanation explanation;
  if (!explanation.mutable_plan()->ParseFromString(bytes)) {
    return damaged(absl::StrCat("the plan of artifact ", artifact_id));
  }
  *explanation.mutable_after() = viewPlan(explanation.plan());
  for (v1::Workload& workload : *explanation.mutable_plan()->mutable_workloads()) {
    workload.clear_ir();
  }
  return toJson(explanation);
}

absl::StatusOr<std::string> timelineJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, readJob(upstream, caller, job_id));
  const bool over = job.end_time_us() != 0;
  EventStream stream(upstream, caller, job_id, 0);
  const auto until = std::chrono::steady_clock::now() + WebLimits::kCallPatience;
  std::vector<v1::JobEvent> attempts;
  std::optional<std::vector<v1::JobEvent>> events;
  bool more = false;
  // The history of a job that is over has an end. A job that runs goes on: its history is complete when no event
  // follows within kSilence, since stored events come at once.
  for (auto patience = kFirstEvent; !more && stream.wait(over ? WebLimits::kCallPatience : patience);
       patience = kSilence) {
    events = stream.take();
    if (!events) {
      TESSERA_RETURN_IF_ERROR(stream.status());
      break;
    }
    for (v1::JobEvent& event : *events) {
      if (event.has_attempt()) {
        attempts.push_back(std::move(event));
      }
    }
    more = attempts.size() > WebLimits::kMaxTraceSpans || std::chrono::steady_clock::now() > until;
  }
  attempts.resize(std::min(attempts.size(), WebLimits::kMaxTraceSpans));
  return traceJson(job_id, spansOf(attempts), more);
}

}  // namespace tessera::server::gateway
