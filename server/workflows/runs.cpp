#include "server/workflows/runs.h"

#include <utility>

#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/queue/actions.h"
#include "server/queue/tasks.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/profile_records.h"

namespace tessera::server {
namespace {

/// Adds the task, with the artifact and the large tensors as inputs.
template <typename Spec>
absl::Status addRun(QueueTransaction& queue, const v1::Action& action, const Spec& run, v1::TaskSpec spec) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Artifact artifact, queue.tx.getArtifact(projectOf(action), run.artifact_id()));
  *spec.add_inputs() = artifact.blob();
  for (const v1::TensorValue& input : run.inputs()) {
    if (input.has_blob()) {
      *spec.add_inputs() = input.blob();
    }
  }
  // Every worker can simulate, and refuse a program for OpenCL devices.
  const bool anywhere = artifact.manifest().simulated() || artifact.manifest().opencl();
  const HostNeeds needs{artifact.manifest().code(), artifact.manifest().target_name()};
  return addTask(queue, action, std::move(spec), "", anywhere ? nullptr : &needs).status();
}

}  // namespace

absl::Status beginRun(QueueTransaction& queue, const v1::Action& action, const v1::Job& job) {
  v1::TaskSpec spec;
  if (job.has_execute()) {
    spec.set_kind(v1::EXECUTE);
    *spec.mutable_execute() = job.execute();
    return addRun(queue, action, job.execute(), std::move(spec));
  }
  spec.set_kind(v1::PROFILE);
  *spec.mutable_profile() = job.profile();
  return addRun(queue, action, job.profile(), std::move(spec));
}

absl::Status beginAnalysis(QueueTransaction& queue, const v1::Action& action, const v1::Job& job,
                           const v1::Target& target) {
  v1::TaskSpec spec;
  spec.set_kind(v1::ANALYZE);
  *spec.mutable_analyze()->mutable_spec() = job.analyze();
  *spec.mutable_analyze()->mutable_target() = target;
  addModelInputs(job.analyze().compile(), spec);
  return addTask(queue, action, std::move(spec), "").status();
}

absl::Status runDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  notePhase(action, phaseOf(task.spec().kind()), millis(task.end_time_us() - task.first_start_us()), task.cpu_ms(), 1);
  action.mutable_progress()->set_done(1);
  if (task.spec().kind() == v1::PROFILE) {
    TESSERA_RETURN_IF_ERROR(fileProfileRecords(queue, action, task));
  }
  return succeedAction(queue, action, [&](v1::Job& job) {
    if (task.spec().kind() == v1::EXECUTE) {
      *job.mutable_execute_result() = task.result().execute();
    } else if (task.spec().kind() == v1::ANALYZE) {
      const v1::AnalyzeTaskResult& answer = task.result().analyze();
      *job.mutable_analyze_result()->mutable_report() = fileDigest(task.result(), answer.report_file());
      job.mutable_analyze_result()->set_problems(answer.problems());
    } else {
      *job.mutable_profile_result() = task.result().profile();
    }
  });
}

}  // namespace tessera::server
