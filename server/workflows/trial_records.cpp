#include "server/workflows/trial_records.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"
#include "proto/messages/project.h"
#include "proto/support/median.h"
#include "server/queue/queue_transaction.h"

namespace tessera::server {
std::optional<v1::TuningRecord::Outcome> outcomeOf(v1::TaskKind kind, v1::Failure::Reason reason) {
  switch (reason) {
    case v1::Failure::CRASHED:
    case v1::Failure::OUT_OF_MEMORY:
    case v1::Failure::SANDBOX_VIOLATION:
    case v1::Failure::QUARANTINED:
      return v1::TuningRecord::CRASHED;
    case v1::Failure::RUN_DEADLINE_EXCEEDED:
      return v1::TuningRecord::TIMED_OUT;
    case v1::Failure::INVALID_SCHEDULE:
      return v1::TuningRecord::REFUSED;
    case v1::Failure::NO_WORKER:
    case v1::Failure::WORKER_FAULT:
    case v1::Failure::LEASE_LOST:
    case v1::Failure::MISSING_BLOB:
      return std::nullopt;
    default:
      return kind == v1::BUILD ? v1::TuningRecord::BUILD_FAILED : v1::TuningRecord::CRASHED;
  }
}

void addFailedTrial(v1::TuneResult::Workload& report, v1::TuningRecord::Outcome outcome) {
  switch (outcome) {
    case v1::TuningRecord::CRASHED:
      return report.set_crashed(report.crashed() + 1);
    case v1::TuningRecord::TIMED_OUT:
      return report.set_timed_out(report.timed_out() + 1);
    case v1::TuningRecord::REFUSED:
      return report.set_refused(report.refused() + 1);
    default:
      return report.set_unbuilt(report.unbuilt() + 1);
  }
}

namespace {

/// Fields that are common to records of trees and of choices.
v1::TuningRecord tuningRecord(const QueueTransaction& queue, const v1::Action& action, const v1::Task& task,
                              const TrialOutcome& outcome) {
  v1::TuningRecord record;
  record.set_project(projectOf(action));
  record.set_target_name(action.target().name());
  record.set_target_hash(compiler::targetHash(action.target()));
  record.set_outcome(outcome.outcome);
  record.set_reason(outcome.reason);
  record.set_validation(outcome.outcome == v1::TuningRecord::PASSED ? "passed" : "failed");
  record.set_compiler_version(queue.rules.compiler_version);
  record.set_job_id(action.job_id());
  record.set_create_time_us(queue.now_us);
  record.set_worker(task.worker_id());
  if (outcome.measured != nullptr) {
    const v1::MeasureTaskResult& measured = *outcome.measured;
    record.set_hostname(measured.host().hostname());
    record.set_cpu_model(measured.host().cpu_model());
    *record.mutable_cpu_features() = measured.host().features();
    record.set_load_average(measured.load_average());
    record.set_measure_ms(millis(queue.now_us - task.start_time_us()));
  }
  return record;
}

/// Times of candidate and default, with their medians and spreads.
void setTimes(const google::protobuf::RepeatedField<double>& candidate_ms,
              const google::protobuf::RepeatedField<double>& baseline_ms, v1::TuningRecord& record) {
  *record.mutable_times_ms() = candidate_ms;
  record.set_median_ms(medianOf(candidate_ms));
  record.set_baseline_ms(medianOf(baseline_ms));
  record.set_mad_ms(relativeMad(candidate_ms) * record.median_ms());
  record.set_host_noise(relativeMad(baseline_ms));
}

}  // namespace

absl::Status storeTrial(QueueTransaction& queue, const v1::Action& search, const v1::Task& task,
                        const v1::Schedule& schedule, int number, double build_ms, const char* mode,
                        const TrialOutcome& outcome) {
  const v1::SearchState& state = search.search();
  v1::TuningRecord record = tuningRecord(queue, search, task, outcome);
  record.set_id(absl::StrCat(search.id(), "-", number, mode == kSearchMode ? "" : "-confirmed"));
  record.set_workload_hash(state.workload_hash());
  record.set_workload_summary(state.summary());
  *record.mutable_workload_shape() = state.shape();
  *record.mutable_schedule() = schedule;
  record.set_seed(state.seed());
  record.set_mode(mode);
  record.set_method(state.method());
  record.set_trial(number);
  record.set_threads(state.threads());
  record.set_flops(state.flops());
  record.set_caches(state.cold() ? v1::TuningRecord::COLD : v1::TuningRecord::WARM);
  record.set_elapsed_ms(millis(queue.now_us - state.start_time_us()));
  record.set_build_ms(build_ms);
  if (outcome.measured != nullptr) {
    setTimes(outcome.measured->candidate_ms(), outcome.measured->baseline_ms(), record);
  }
  return queue.tx.putRecord(record);
}

v1::TuningRecord choiceRecord(const QueueTransaction& queue, const v1::Action& tune, const v1::Task& task,
                              const v1::AmbiguousChoice& open, int number, const TrialOutcome& outcome) {
  const v1::TuneState& state = tune.tune();
  v1::TuningRecord record = tuningRecord(queue, tune, task, outcome);
  record.set_id(absl::StrCat(task.id(), "-", open.hash()));  // equal for all jobs that share the task
  record.set_workload_hash(open.hash());
  record.set_workload_summary(open.summary());
  record.set_seed(state.spec().seed());
  record.set_mode(kChoiceMode);
  record.set_trial(number);
  record.set_threads(std::max(1, state.spec().threads()));
  record.set_caches(state.spec().cold() ? v1::TuningRecord::COLD : v1::TuningRecord::WARM);
  record.set_elapsed_ms(millis(queue.now_us - state.choices_start_us()));
  if (outcome.measured != nullptr) {
    setTimes(outcome.measured->candidate_own_ms(), outcome.measured->baseline_own_ms(), record);
  }
  return record;
}

}  // namespace tessera::server
