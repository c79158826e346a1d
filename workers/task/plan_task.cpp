#include "absl/strings/str_cat.h"
#include "compiler/pipeline.h"
#include "workers/task/model_task.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {

absl::StatusOr<v1::TaskResult> runPlanTask(const TaskContext& task) {
  const v1::PlanTask& spec = task.spec().plan();
  auto request = planRequestFor(task, spec.spec(), spec.target());
  if (!request.ok()) return request.status();
  request->weights_path = task.output("weights.bin");

  auto planned = compiler::plan(*request, [&](const v1::Progress& progress) { task.progress(progress); });
  if (!planned.ok()) return planned.status();

  v1::TaskResult result;
  v1::PlanTaskResult& plan = *result.mutable_plan();
  plan.set_import_ms(planned->import_ms);
  plan.set_plan_ms(planned->plan_ms);
  plan.set_plan_file("plan.pb");
  if (absl::Status status = writeOutput(task, "plan.pb", planned->plan, result); !status.ok()) return status;
  if (planned->has_weights) {
    plan.set_weights_file("weights.bin");
    result.add_files()->set_name("weights.bin");
  }
  for (size_t i = 0; i < planned->units.size(); ++i) {
    const v1::BuildUnit& build = planned->units[i];
    v1::PlanTaskResult::Unit& unit = *plan.add_units();
    unit.set_workload_hash(build.workload_hash());
    unit.set_file(absl::StrCat("unit-", i, ".pb"));
    unit.set_summary(planned->plan.workloads(static_cast<int>(i)).summary());
    if (absl::Status status = writeOutput(task, unit.file(), build, result); !status.ok()) return status;
  }
  return result;
}

}  // namespace tessera::worker
