#pragma once

#include "absl/status/statusor.h"
#include "tessera/v1/task.pb.h"
#include "workers/sandbox/sandbox.h"
#include "workers/task/task_context.h"

/// The kinds of task, one source file each. A task runs in a separate process that is already confined to its scratch
/// folder and the compile profile. Tasks that run generated code enter the execute profile themselves, once everything
/// is loaded and open. Errors carry a v1::Failure.
namespace tessera::worker {

/// Model -> plan.pb, weights.bin and one unit-N.pb per distinct workload.
absl::StatusOr<v1::TaskResult> runPlanTask(const TaskContext& task);
/// Build unit -> object.pb.
absl::StatusOr<v1::TaskResult> runBuildTask(const TaskContext& task);
/// Plan, objects, weights -> artifact.tsra.
absl::StatusOr<v1::TaskResult> runAssembleTask(const TaskContext& task);
/// Artifact and tensors -> tensors; those larger than 1 MiB as files output-N.
absl::StatusOr<v1::TaskResult> runExecuteTask(const TaskContext& task);
/// Artifact -> latencies of whole runs and of each step.
absl::StatusOr<v1::TaskResult> runProfileTask(const TaskContext& task);

/// Model -> report.pb: a CheckReport or an Explanation.
absl::StatusOr<v1::TaskResult> runAnalyzeTask(const TaskContext& task);

/// Build unit with the default tree, and results of earlier proposals -> unit-N.pb for each tree to try next.
absl::StatusOr<v1::TaskResult> runSearchTask(const TaskContext& task);
/// Two objects of a workload, or two artifacts -> times of alternating runs, if their results agree.
absl::StatusOr<v1::TaskResult> runMeasureTask(const TaskContext& task);

struct TaskKindEntry {
  v1::TaskKind kind;
  Profile profile;
  v1::TaskSpec::PayloadCase payload;
  absl::StatusOr<v1::TaskResult> (*run)(const TaskContext& task);
};

/// Returns the entry of a kind, or null.
const TaskKindEntry* findTaskKind(v1::TaskKind kind);

}  // namespace tessera::worker
