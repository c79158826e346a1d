#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/artifact_reader.h"
#include "compiler/target/host.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "workers/task/artifact_run.h"
#include "workers/task/simulated_task.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

constexpr int kDefaultWarmup = 3;
constexpr int kDefaultRepeat = 10;
constexpr int kMaxRuns = 100'000;
constexpr int kStepRuns = 15;  // runs in which each step is timed

absl::StatusOr<int> runsOf(const char* name, int given, int otherwise) {
  if (given >= 0 && given <= kMaxRuns) return given == 0 ? otherwise : given;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat(name, " is ", given, "; accepted are 0 (the default) to ", kMaxRuns));
  failure.set_attribute(name);
  failure.set_found(absl::StrCat(given));
  failure.set_accepted(absl::StrCat("0 to ", kMaxRuns));
  return failureStatus(failure);
}

double medianMilliseconds(std::vector<int64_t> ns) {
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return static_cast<double>(*middle) / 1e6;
}

// The plan that an artifact was built from: its steps and their schedules.
absl::StatusOr<v1::Plan> planOf(const TaskContext& task, const std::string& artifact_id) {
  TESSERA_ASSIGN_OR_RETURN(auto path, task.input(artifact_id));
  compiler::ArtifactFile file;
  std::span<const uint8_t> bytes;
  v1::Plan plan;
  if (!compiler::ArtifactFile::open(path, &file).ok() || !file.read(compiler::kPlanEntry, &bytes).ok() ||
      !plan.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return failureStatus(v1::Failure::INVALID_INPUT, absl::StrCat("artifact ", artifact_id, " has no readable plan"));
  }
  return plan;
}

// The plan of the variant that runs: `plan` itself or one of its variants; null if there is none.
const v1::Plan* variantOf(const v1::Plan& plan, const ArtifactRun& run) {
  const auto variant = static_cast<int>(run.variant());
  if (variant > plan.variants_size()) return nullptr;
  const v1::Plan& chosen = variant == 0 ? plan : plan.variants(variant - 1);
  return chosen.steps_size() == static_cast<int>(run.steps()) ? &chosen : nullptr;
}

// Times each step in separate runs, so that this does not affect the latencies of whole runs.
absl::Status profileSteps(ArtifactRun& run, const v1::Plan& plan, const v1::Plan& variant, int runs,
                          v1::ProfileResult& result) {
  std::vector<std::vector<int64_t>> times(run.steps());
  std::vector<int64_t> step_ns(run.steps());
  for (int i = 0; i < runs; ++i) {
    if (auto latency_ms = run.run(&step_ns); !latency_ms.ok()) return latency_ms.status();
    for (size_t step = 0; step < step_ns.size(); ++step) times[step].push_back(step_ns[step]);
  }
  for (size_t step = 0; step < times.size(); ++step) {
    const tessera_step_info info = run.step(step);
    v1::ProfileResult::KernelTime& kernel = *result.add_kernels();
    kernel.set_name(info.name);
    kernel.set_symbol(info.symbol);
    kernel.set_flops(info.flops);
    kernel.set_median_ms(medianMilliseconds(times[step]));
    for (int64_t ns : times[step]) kernel.add_times_ms(static_cast<double>(ns) / 1e6);
    const v1::Workload& workload = plan.workloads(variant.steps(static_cast<int>(step)).workload());
    kernel.set_workload_hash(workload.hash());
    kernel.set_summary(workload.summary());
    if (workload.has_schedule()) *kernel.mutable_schedule() = workload.schedule();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::TaskResult> runProfileTask(const TaskContext& task) {
  const v1::ProfileSpec& spec = task.spec().profile();
  TESSERA_ASSIGN_OR_RETURN(const auto warmup, runsOf("warmup", spec.warmup(), kDefaultWarmup));
  TESSERA_ASSIGN_OR_RETURN(const auto repeat, runsOf("repeat", spec.repeat(), kDefaultRepeat));
  TESSERA_ASSIGN_OR_RETURN(const std::string path, task.input(spec.artifact_id()));
  TESSERA_RETURN_IF_ERROR(checkNoDevice(path));
  if (isSimulated(path)) return profileSimulated(task, path, spec);
  TESSERA_ASSIGN_OR_RETURN(
      auto run, ArtifactRun::prepare(task, spec.artifact_id(), spec.inputs(), spec.threads(), {true, spec.seed()}));

  TESSERA_ASSIGN_OR_RETURN(auto plan, planOf(task, spec.artifact_id()));
  const v1::Plan* variant = variantOf(plan, *run);
  if (variant == nullptr) {
    return failureStatus(v1::Failure::INVALID_INPUT,
                         absl::StrCat("artifact ", spec.artifact_id(), ": its plan and its code have different steps"));
  }

  v1::TaskResult result;
  v1::ProfileResult& profile = *result.mutable_profile();
  const v1::HostInfo host = compiler::hostInfo();
  profile.mutable_host()->set_hostname(host.hostname());
  profile.mutable_host()->set_cpu_model(host.cpu_model());
  profile.mutable_latency_ms()->Reserve(repeat);

  TESSERA_RETURN_IF_ERROR(filterSystemCalls(Profile::kExecute));
  v1::Progress progress;
  progress.set_phase("profile");
  progress.set_total(repeat);
  for (int i = -warmup; i < repeat; ++i) {
    TESSERA_ASSIGN_OR_RETURN(auto latency_ms, run->run());
    if (i < 0) continue;
    profile.add_latency_ms(latency_ms);
    // Report progress ten times, but not between the runs of a short profile.
    if (repeat >= 100 && i % (repeat / 10) == 0) {
      progress.set_done(i);
      task.progress(progress);
    }
  }
  if (absl::Status status = profileSteps(*run, plan, *variant, std::min(repeat, kStepRuns), profile); !status.ok())
    return status;
  (void)run.release();  // the process ends now
  return result;
}

}  // namespace tessera::worker
