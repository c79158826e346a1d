#include "server/gateway/reports.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/plan_view.h"
#include "server/gateway/blob_entry.h"
#include "server/gateway/transcoding.h"
#include "server/gateway/web_limits.h"
#include "server/status_macros.h"
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

}  // namespace

absl::StatusOr<std::string> reportJson(Upstream& upstream, const WebCaller& caller, const std::string& job_id) {
  v1::GetJobRequest request;
  request.set_id(job_id);
  v1::GetJobResponse response;
  TESSERA_TRY(upstream.call("tessera.v1.JobService.GetJob", caller, request, response));
  const v1::Job& job = response.job();
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
  // What a worker said of its size is no bound.
  TESSERA_ASSIGN(const std::string bytes, upstream.read(caller, report.sha256(), 0, WebLimits::kMaxReportBytes));
  const std::string what = absl::StrCat("the report of job ", job_id);
  return job.analyze().question() == v1::AnalyzeSpec::CHECK ? asJson<v1::CheckReport>(bytes, what)
                                                            : asJson<v1::Explanation>(bytes, what);
}

absl::StatusOr<std::string> planJson(Upstream& upstream, const WebCaller& caller, const std::string& artifact_id) {
  v1::GetArtifactRequest request;
  request.set_id(artifact_id);
  v1::GetArtifactResponse response;
  TESSERA_TRY(upstream.call("tessera.v1.ArtifactService.GetArtifact", caller, request, response));
  const v1::Digest& file = response.artifact().blob();
  const auto read = [&](int64_t offset, int64_t length) {
    return upstream.read(caller, file.sha256(), offset, length);
  };
  TESSERA_ASSIGN(const std::string bytes, entryOf(file.size_bytes(), read, "plan.pb", WebLimits::kMaxReportBytes));
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

}  // namespace tessera::server::gateway
