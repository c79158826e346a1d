#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/driver/pipeline.h"
#include "compiler/schedule/ambiguous_choices.h"
#include "proto/support/status_macros.h"
#include "workers/task/model_task.h"
#include "workers/task/task_kinds.h"
#include "workers/task/task_steps.h"

namespace tessera::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOpenChoices = 32;  // reported per plan

constexpr char kWeights[] = "weights.bin";
constexpr char kArtifact[] = "artifact.tsra";

// Limits of a model that is built and assembled in this task: a separate attempt takes about 20 ms, and there is too
// little work to distribute.
constexpr size_t kSmallUnits = 2;
constexpr int64_t kSmallFlops = 10'000'000;
constexpr int64_t kSmallWeights = int64_t{4} << 20;

bool isSmall(const TaskContext& task, const compiler::PlanResult& planned) {
  int64_t flops = 0;
  for (const v1::Workload& workload : planned.plan.workloads()) flops += workload.flops();
  struct stat weights{};
  if (planned.has_weights && stat(task.output(kWeights).c_str(), &weights) != 0) return false;
  return planned.units.size() <= kSmallUnits && flops <= kSmallFlops && weights.st_size <= kSmallWeights;
}

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Builds all units and assembles the artifact, as separate tasks would.
absl::Status finish(const TaskContext& task, compiler::PlanResult planned, compiler::StepCache* steps,
                    v1::TaskResult& result) {
  v1::PlanTaskResult& plan = *result.mutable_plan();
  compiler::AssembleRequest request;
  request.name = task.spec().plan().spec().name();
  request.steps = steps;
  request.artifact_path = task.output(kArtifact);
  if (planned.has_weights) request.weights_path = task.output(kWeights);
  auto start = Clock::now();
  for (size_t i = 0; i < planned.units.size(); ++i) {
    bool known = false;
    TESSERA_ASSIGN_OR_RETURN(auto built, compiler::build(planned.units[i], steps, known));
    v1::PlanTaskResult::Unit& unit = *plan.mutable_units(static_cast<int>(i));
    unit.set_object_known(known);
    unit.set_object_file(absl::StrCat("object-", i, ".pb"));
    TESSERA_RETURN_IF_ERROR(encloseOutput(task, unit.object_file(), built, result));
    request.objects.push_back(std::move(built));
  }
  plan.set_build_ms(millisecondsSince(start));
  start = Clock::now();
  request.plan = std::move(planned.plan);
  TESSERA_ASSIGN_OR_RETURN(auto manifest, compiler::assemble(request));
  plan.mutable_assembled()->set_artifact_file(kArtifact);
  *plan.mutable_assembled()->mutable_manifest() = std::move(manifest);
  result.add_files()->set_name(kArtifact);
  plan.set_assemble_ms(millisecondsSince(start));
  return absl::OkStatus();
}

/// Choices to measure, sorted by possible gain. If the chip's description has its own cost parameters, these may be
/// wrong: the choices that the family's parameters alone would make are another candidate.
std::vector<v1::AmbiguousChoice> openChoicesOf(const compiler::PlanRequest& request, const v1::GraphReport& report) {
  std::vector<v1::AmbiguousChoice> open = compiler::ambiguousChoices(report);
  if (!request.target.has_cost_parameters()) return open;
  compiler::PlanRequest by_family = request;
  by_family.target.clear_cost_parameters();
  by_family.target.clear_memory();
  by_family.weights_path.clear();
  by_family.steps = nullptr;
  const auto planned = compiler::plan(by_family, [](const v1::Progress&) {});
  if (!planned.ok()) return open;  // the plan itself is valid; it only has one candidate less
  if (auto otherwise = compiler::differingChoices(report, planned->plan.report(), "the chip's family"))
    open.insert(open.begin(), *std::move(otherwise));
  return open;
}

}  // namespace

absl::StatusOr<v1::TaskResult> runPlanTask(const TaskContext& task) {
  const v1::PlanTask& spec = task.spec().plan();
  TESSERA_ASSIGN_OR_RETURN(auto request, planRequestFor(task, spec.spec(), spec.target()));
  request.weights_path = task.output(kWeights);
  TaskSteps steps(task);
  request.steps = steps.cache();

  auto planned = compiler::plan(request, [&](const v1::Progress& progress) { task.progress(progress); });
  if (!planned.ok()) return planned.status();

  v1::TaskResult result;
  v1::PlanTaskResult& plan = *result.mutable_plan();
  plan.set_import_ms(planned->import_ms);
  plan.set_plan_ms(planned->plan_ms);
  plan.set_plan_file("plan.pb");
  if (spec.report_ambiguous_choices() && !spec.spec().has_pins()) {
    for (v1::AmbiguousChoice& open : openChoicesOf(request, planned->plan.report())) {
      if (static_cast<size_t>(plan.ambiguous_choices_size()) == kMaxOpenChoices) break;
      *plan.add_ambiguous_choices() = std::move(open);
    }
  }
  // If no other task follows, these files are not needed in a worker's cache.
  const bool finishes = spec.finish_small() && isSmall(task, *planned);
  const auto output = finishes ? encloseOutput : writeOutput;
  TESSERA_RETURN_IF_ERROR(output(task, "plan.pb", planned->plan, result));
  if (planned->has_weights) {
    plan.set_weights_file(kWeights);
    result.add_files()->set_name(kWeights);
  }
  for (size_t i = 0; i < planned->units.size(); ++i) {
    const v1::BuildUnit& build = planned->units[i];
    v1::PlanTaskResult::Unit& unit = *plan.add_units();
    unit.set_workload_hash(build.workload_hash());
    unit.set_file(absl::StrCat("unit-", i, ".pb"));
    unit.set_summary(planned->plan.workloads(static_cast<int>(i)).summary());
    *unit.mutable_shape() = planned->shapes[build.workload_hash()];
    TESSERA_RETURN_IF_ERROR(output(task, unit.file(), build, result));
  }
  if (finishes) {
    TESSERA_RETURN_IF_ERROR(finish(task, *std::move(planned), steps.cache(), result));
  }
  TESSERA_RETURN_IF_ERROR(steps.handIn());
  return result;
}

}  // namespace tessera::worker
