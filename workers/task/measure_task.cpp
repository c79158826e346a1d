#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/driver/pipeline.h"
#include "compiler/target/host.h"
#include "proto/messages/failure.h"
#include "proto/support/median.h"
#include "proto/support/status_macros.h"
#include "workers/task/artifact_run.h"
#include "workers/task/result_check.h"
#include "workers/task/task_kinds.h"
#include "workers/task/trial_rounds.h"

namespace tessera::worker {
namespace {

constexpr size_t kFlushBytes = size_t{96} << 20;  // bytes read and written between cold runs

/// Makes a plan of one workload, with its operands as inputs and its results as outputs.
absl::StatusOr<v1::Plan> planOfOne(const v1::Plan& plan, const std::string& hash, int results) {
  for (const v1::Step& step : plan.steps()) {
    const v1::Workload& workload = plan.workloads(step.workload());
    if (workload.hash() != hash) continue;
    v1::Plan one;
    one.set_compiler_version(plan.compiler_version());
    *one.mutable_target() = plan.target();
    *one.add_workloads() = workload;
    v1::Step& only = *one.add_steps();
    only.set_name(workload.summary());
    const int arguments = step.operands_size() - results;
    for (int i = 0; i < step.operands_size(); ++i) {
      v1::Buffer& buffer = *one.add_buffers();
      buffer = plan.buffers(step.operands(i));
      const bool input = i < arguments;
      buffer.set_kind(input ? v1::Buffer::INPUT : v1::Buffer::OUTPUT);
      buffer.set_index(input ? i : i - arguments);
      buffer.set_offset(0);
      v1::TensorSpec& spec = *buffer.mutable_spec();
      spec.set_name(absl::StrCat(input ? "argument" : "result", buffer.index()));
      spec.clear_bounded_dims();
      *(input ? one.add_inputs() : one.add_outputs()) = spec;
      only.add_operands(i);
    }
    return one;
  }
  return failureStatus(v1::Failure::INVALID_INPUT, absl::StrCat("the plan has no step that runs workload ", hash));
}

/// Path of an artifact: the input itself, or one assembled from a workload's object.
absl::StatusOr<std::string> artifactFile(const TaskContext& task, const v1::Plan& plan, const v1::Digest& digest,
                                         const std::string& name) {
  auto path = task.input(digest.sha256());
  const v1::MeasureTask& spec = task.spec().measure();
  if (!path.ok() || spec.workload_hash().empty()) return path;
  compiler::AssembleRequest request;
  request.name = name;
  request.objects.emplace_back();
  v1::CandidateObject tried;
  const bool candidate = digest.sha256() == spec.candidate().sha256();
  if (absl::Status status =
          readMessage(*path, candidate ? static_cast<google::protobuf::Message&>(tried) : request.objects[0]);
      !status.ok())
    return status;
  if (candidate) request.objects[0] = std::move(*tried.mutable_object());
  TESSERA_ASSIGN_OR_RETURN(request.plan,
                           planOfOne(plan, spec.workload_hash(), request.objects[0].info().num_results()));
  request.artifact_path = task.output(name);
  TESSERA_ASSIGN_OR_RETURN(auto manifest, compiler::assemble(request));
  return request.artifact_path;
}

/// Resets signal handlers that the linker installed: in a crash they would make system calls that generated code may
/// not make, which would look like an attack.
void resetSignalHandlers() {
  for (const int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(fatal, SIG_DFL);
}

class Measurement {
 public:
  Measurement(const v1::MeasureTask& spec, ArtifactRun& baseline, ArtifactRun* candidate)
      : spec_(spec), baseline_(baseline), candidate_(candidate) {
    if (spec.cold()) flush_.resize(kFlushBytes);
  }

  absl::Status measure(v1::MeasureTaskResult& result);
  /// For two artifacts: finds the steps that only one of them has.
  absl::Status findOwnSteps(const v1::Plan& baseline, const v1::Plan& candidate);
  absl::Status timeSteps(const v1::Plan& plan, v1::MeasureTaskResult& result);

 private:
  /// Describes how the results differ; empty if they agree.
  absl::StatusOr<std::string> compareResults();
  struct Side {
    ArtifactRun& run;
    std::vector<size_t> own;  ///< positions of steps that the other artifact lacks
    std::vector<double> ms = {}, own_ms = {};
  };
  absl::StatusOr<double> timed(ArtifactRun& run, std::vector<int64_t>* step_ns = nullptr);
  absl::Status time(Side& side, int runs);

  const v1::MeasureTask& spec_;
  ArtifactRun& baseline_;
  ArtifactRun* candidate_;
  std::vector<size_t> baseline_own_, candidate_own_;
  std::vector<char> flush_;
};

absl::Status checkSteps(const v1::Plan& plan, const ArtifactRun& run) {
  if (plan.steps_size() == static_cast<int>(run.steps())) return absl::OkStatus();
  return failureStatus(v1::Failure::INVALID_INPUT, "the plan and the artifact have different steps");
}

/// Steps of `plan` beyond those of `other` with the same workload.
std::vector<size_t> unmatchedSteps(const v1::Plan& plan, const v1::Plan& other) {
  std::map<std::string, int> equal;
  for (const v1::Step& step : other.steps()) ++equal[other.workloads(step.workload()).hash()];
  std::vector<size_t> own;
  for (int at = 0; at < plan.steps_size(); ++at)
    if (--equal[plan.workloads(plan.steps(at).workload()).hash()] < 0) own.push_back(static_cast<size_t>(at));
  return own;
}

absl::Status Measurement::findOwnSteps(const v1::Plan& baseline, const v1::Plan& candidate) {
  TESSERA_RETURN_IF_ERROR(checkSteps(baseline, baseline_));
  TESSERA_RETURN_IF_ERROR(checkSteps(candidate, *candidate_));
  baseline_own_ = unmatchedSteps(baseline, candidate);
  candidate_own_ = unmatchedSteps(candidate, baseline);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Measurement::compareResults() {
  for (const bool positive : {false, true}) {
    baseline_.refill(spec_.seed(), positive);
    TESSERA_RETURN_IF_ERROR(candidate_->copyInputsFrom(baseline_));
    if (auto ran = baseline_.run(); !ran.ok()) return ran.status();
    if (auto ran = candidate_->run(); !ran.ok()) return ran.status();
    bool finite = true;
    for (size_t i = 0; i < baseline_.outputs().size(); ++i) {
      const ResultCheck check = checkResult(baseline_.outputs()[i], candidate_->outputBytes(i),
                                            baseline_.outputBytes(i), spec_.rules().tolerance());
      if (!check.difference.empty())
        return absl::StrCat("result '", baseline_.outputs()[i].name(), "': ", check.difference);
      finite = finite && check.finite;
    }
    // Inputs in [-1, 1) make roots and logarithms NaN; repeat with non-negative inputs.
    if (finite) break;
  }
  return "";
}

absl::StatusOr<double> Measurement::timed(ArtifactRun& run, std::vector<int64_t>* step_ns) {
  // With cold caches: touch one byte per cache line of a large buffer, to evict the operands. Otherwise it is empty.
  for (size_t at = 0; at < flush_.size(); at += 64) flush_[at] = static_cast<char>(flush_[at] + 1);
  return run.run(step_ns);
}

absl::Status Measurement::time(Side& side, int runs) {
  for (; runs > 0; --runs) {
    std::vector<int64_t> step_ns(side.run.steps());
    TESSERA_ASSIGN_OR_RETURN(auto ms,
                             timed(side.run, baseline_own_.empty() && candidate_own_.empty() ? nullptr : &step_ns));
    side.ms.push_back(ms);
    double own_ns = 0;
    for (const size_t step : side.own) own_ns += static_cast<double>(step_ns[step]);
    side.own_ms.push_back(own_ns / 1e6);
  }
  return absl::OkStatus();
}

absl::Status Measurement::measure(v1::MeasureTaskResult& result) {
  TESSERA_ASSIGN_OR_RETURN(auto wrong, compareResults());
  result.set_wrong(wrong);
  if (!wrong.empty()) return absl::OkStatus();
  Side baseline{baseline_, baseline_own_}, candidate{*candidate_, candidate_own_};
  for (Side* side : {&baseline, &candidate}) TESSERA_RETURN_IF_ERROR(time(*side, 1));
  const TrialRounds rounds(spec_.rules(), baseline.ms.front(), candidate.ms.front(), spec_.best_speed());
  if (!rounds.hopeless()) {
    TESSERA_RETURN_IF_ERROR(time(candidate, rounds.candidateRuns() - 1));
    while (!rounds.enough(baseline.ms, candidate.ms)) {
      const bool candidate_first = baseline.ms.size() % 2 == 1;  // the side that ran last runs first, to cancel drift
      for (const bool of_candidate : {candidate_first, !candidate_first}) {
        TESSERA_RETURN_IF_ERROR(of_candidate ? time(candidate, rounds.candidateRuns()) : time(baseline, 1));
      }
    }
  }
  result.mutable_baseline_ms()->Assign(baseline.ms.begin(), baseline.ms.end());
  result.mutable_candidate_ms()->Assign(candidate.ms.begin(), candidate.ms.end());
  if (baseline_own_.empty() && candidate_own_.empty()) return absl::OkStatus();
  result.mutable_baseline_own_ms()->Assign(baseline.own_ms.begin(), baseline.own_ms.end());
  result.mutable_candidate_own_ms()->Assign(candidate.own_ms.begin(), candidate.own_ms.end());
  return absl::OkStatus();
}

absl::Status Measurement::timeSteps(const v1::Plan& plan, v1::MeasureTaskResult& result) {
  TESSERA_RETURN_IF_ERROR(checkSteps(plan, baseline_));
  baseline_.refill(spec_.seed(), false);
  if (auto warm = baseline_.run(); !warm.ok()) return warm.status();
  std::vector<std::vector<double>> times(baseline_.steps());
  std::vector<int64_t> step_ns(baseline_.steps());
  const int runs = spec_.rules().repeat() > 0 ? spec_.rules().repeat() : kTrialRuns;
  for (int run = 0; run < runs; ++run) {
    TESSERA_ASSIGN_OR_RETURN(auto ms, baseline_.run(&step_ns));
    result.add_baseline_ms(ms);
    for (size_t step = 0; step < step_ns.size(); ++step)
      times[step].push_back(static_cast<double>(step_ns[step]) / 1e6);
  }
  for (size_t step = 0; step < times.size(); ++step) {
    const v1::Workload& workload = plan.workloads(plan.steps(static_cast<int>(step)).workload());
    v1::MeasureTaskResult::StepTime& time = *result.add_steps();
    time.set_workload_hash(workload.hash());
    time.set_summary(workload.summary());
    time.set_median_ms(medianOf(times[step]));
    time.set_flops(workload.flops());
    if (workload.has_fusion()) *time.mutable_fusion() = workload.fusion();
  }
  return absl::OkStatus();
}

absl::Status readPlan(const TaskContext& task, const v1::Digest& digest, v1::Plan& plan) {
  auto path = task.input(digest.sha256());
  return path.ok() ? readMessage(*path, plan) : path.status();
}

}  // namespace

absl::StatusOr<v1::TaskResult> runMeasureTask(const TaskContext& task) {
  const v1::MeasureTask& spec = task.spec().measure();
  v1::Plan plan, candidate_plan;
  TESSERA_RETURN_IF_ERROR(readPlan(task, spec.plan(), plan));
  if (spec.has_candidate_plan()) {
    TESSERA_RETURN_IF_ERROR(readPlan(task, spec.candidate_plan(), candidate_plan));
  }
  std::vector<std::string> files;
  for (const auto& [digest, name] :
       {std::pair(&spec.baseline(), "baseline.tsra"), {&spec.candidate(), "candidate.tsra"}}) {
    if (digest->sha256().empty()) continue;
    TESSERA_ASSIGN_OR_RETURN(auto file, artifactFile(task, plan, *digest, name));
    files.push_back(std::move(file));
  }
  resetSignalHandlers();
  std::vector<std::unique_ptr<ArtifactRun>> runs;
  for (const std::string& file : files) {
    TESSERA_ASSIGN_OR_RETURN(auto run,
                             ArtifactRun::prepareFile(task, file, file, {}, spec.threads(), {.allowed = true}));
    runs.push_back(std::move(run));
  }
  if (runs.empty() || (runs.size() == 1 && !spec.workload_hash().empty()))
    return failureStatus(v1::Failure::INVALID_INPUT,
                         "a tree is measured against the default: both objects are required");

  v1::TaskResult result;
  v1::MeasureTaskResult& measured = *result.mutable_measure();
  *measured.mutable_host() = compiler::hostInfo();
  if (double load = 0; getloadavg(&load, 1) == 1) measured.set_load_average(load);
  Measurement measurement(spec, *runs[0], runs.size() > 1 ? runs[1].get() : nullptr);

  if (runs.size() > 1 && spec.has_candidate_plan()) {
    TESSERA_RETURN_IF_ERROR(measurement.findOwnSteps(plan, candidate_plan));
  }

  TESSERA_RETURN_IF_ERROR(filterSystemCalls(Profile::kExecute));
  TESSERA_RETURN_IF_ERROR(runs.size() > 1 ? measurement.measure(measured) : measurement.timeSteps(plan, measured));
  for (auto& run : runs) (void)run.release();  // the process ends now
  return result;
}

}  // namespace tessera::worker
