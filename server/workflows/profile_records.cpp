#include "server/workflows/profile_records.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

/// Hash of the target that the artifact was compiled for; empty if its job no longer exists.
std::string targetHashOf(storage::Reader& reader, const v1::Artifact& artifact) {
  const auto action_id = reader.getActionOfJob(artifact.job_id());
  if (!action_id.ok()) {
    return "";
  }
  const auto action = reader.getAction(*action_id);
  return action.ok() && action->has_target() ? compiler::targetHash(action->target()) : "";
}

/// Median absolute deviation of a kernel's times.
double deviationOf(const v1::ProfileResult::KernelTime& kernel) {
  std::vector<double> distances;
  for (const double time : kernel.times_ms()) {
    distances.push_back(std::fabs(time - kernel.median_ms()));
  }
  if (distances.empty()) {
    return 0;
  }
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

}  // namespace

absl::Status fileProfileRecords(QueueTransaction& queue, const v1::Action& action, const v1::Task& task) {
  const v1::ProfileSpec& spec = task.spec().profile();
  const v1::ProfileResult& profile = task.result().profile();
  TESSERA_ASSIGN_OR_RETURN(const v1::Artifact artifact, queue.tx.getArtifact(projectOf(action), spec.artifact_id()));
  v1::TuningRecord record;
  record.set_project(projectOf(action));
  record.set_target_name(artifact.manifest().target_name());
  record.set_target_hash(targetHashOf(queue.tx, artifact));
  record.set_validation("unchecked");
  record.set_outcome(v1::TuningRecord::UNCHECKED);
  record.set_caches(v1::TuningRecord::WARM);
  record.set_worker(task.worker_id());
  record.set_hostname(profile.host().hostname());
  record.set_cpu_model(profile.host().cpu_model());
  record.set_compiler_version(artifact.manifest().compiler_version());
  record.set_seed(spec.seed());
  record.set_mode("profile");
  record.set_threads(spec.threads() == 0 ? 1 : spec.threads());
  record.set_job_id(action.job_id());
  record.set_create_time_us(queue.now_us);
  record.set_artifact_id(artifact.id());
  for (int i = 0; i < profile.kernels_size(); ++i) {
    const v1::ProfileResult::KernelTime& kernel = profile.kernels(i);
    record.set_id(absl::StrCat(task.id(), "-", i));
    record.set_workload_hash(kernel.workload_hash());
    record.set_workload_summary(kernel.summary());
    record.clear_schedule();
    if (kernel.has_schedule()) {
      *record.mutable_schedule() = kernel.schedule();
    }
    *record.mutable_times_ms() = kernel.times_ms();
    record.set_median_ms(kernel.median_ms());
    record.set_mad_ms(deviationOf(kernel));
    record.set_flops(kernel.flops());
    TESSERA_RETURN_IF_ERROR(queue.tx.putRecord(record));
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
