#include "server/workflows/tuning_progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/queue/actions.h"
#include "server/workflows/tuning.h"

namespace tessera::server {
namespace {

using Workload = v1::TuneResult::Workload;

int trialsOf(const v1::TuneSpec& spec) { return spec.trials() > 0 ? spec.trials() : kDefaultTrials; }

/// Time of the model with the best trees so far, in ms.
double bestModelMs(const v1::TuneState& tune) {
  double ms = 0;
  for (const Workload& workload : tune.workloads()) {
    const double speed = workload.best_ms() > 0 ? workload.default_ms() / workload.best_ms() : 1;
    ms += workload.share() * tune.model_ms() / std::max(1.0, speed);
  }
  return ms;
}

/// Peak f32 operations per second of this number of cores; 0 if the target does not describe it.
double peakOf(const v1::Target& target, int threads) {
  double peak = 0;
  for (const v1::ComputeUnit& unit : target.units()) {
    peak = std::max(peak, unit.ops_per_cycle() * unit.frequency_ghz() * 1e9);
  }
  return peak * threads;
}

int doneOf(const v1::TuneState& tune) {
  int done = 0;
  for (const Workload& workload : tune.workloads()) {
    done += workload.trials();
  }
  return done;
}

/// Whether a phase is not shown, because the job shows its searches or choices instead.
bool isHidden(const v1::Action& action, const std::string& phase) {
  return (action.tune().stage() == v1::TuneState::SEARCHING && phase != "search") ||
         (action.tune().stage() == v1::TuneState::CHOOSING && phase != "choose");
}

/// Number of trials of all searches.
int totalOf(const v1::TuneState& tune) {
  int total = 0;
  for (const Workload& workload : tune.workloads()) {
    const bool searched = workload.untuned().empty();
    total += searched ? std::max(trialsOf(tune.spec()), workload.trials()) : 0;
  }
  return total;
}

}  // namespace

void copySearchReport(const Workload& report, v1::TuneState& tune) {
  for (Workload& workload : *tune.mutable_workloads()) {
    if (workload.hash() != report.hash()) {
      continue;
    }
    Workload merged = report;
    merged.set_summary(workload.summary());
    merged.set_steps(workload.steps());
    merged.set_share(workload.share());
    merged.set_flops(workload.flops());
    merged.set_shared(workload.shared() || report.shared());
    merged.set_untuned(workload.untuned());
    if (report.default_ms() == 0) {
      merged.set_default_ms(workload.default_ms());
      merged.set_best_ms(workload.default_ms());
    }
    workload = merged;
  }
}

absl::Status showProgress(QueueTransaction& queue, v1::Action& action, const v1::Progress& progress, bool can_wait) {
  return isHidden(action, progress.phase()) ? queue.tx.putAction(action)
                                            : noteProgress(queue, action, progress, can_wait);
}

void showPhase(v1::Action& action, const std::string& phase, double wall_ms, double cpu_ms, int tasks) {
  if (!isHidden(action, phase)) {
    notePhase(action, phase, wall_ms, cpu_ms, tasks);
  }
}

v1::Progress phaseProgress(const std::string& phase) {
  v1::Progress progress;
  progress.set_phase(phase);
  progress.set_total(1);
  return progress;
}

v1::Progress searchProgress(const v1::TuneState& tune) {
  v1::Progress progress;
  progress.set_phase("search");
  progress.set_done(doneOf(tune));
  progress.set_total(totalOf(tune));
  const double best_ms = bestModelMs(tune);
  progress.set_detail(absl::StrFormat("the model would take %.4f ms instead of %.4f ms", best_ms, tune.model_ms()));
  return progress;
}

v1::JobEvent::TuneProgress trialProgress(const v1::Action& action, const std::string& workload_hash,
                                         const std::string& failure, int64_t now_us) {
  const v1::TuneState& tune = action.tune();
  v1::JobEvent::TuneProgress progress;
  progress.set_workload_hash(workload_hash);
  progress.set_failure(failure);
  progress.set_done(doneOf(tune));
  progress.set_total(totalOf(tune));
  progress.set_model_ms(tune.model_ms());
  progress.set_model_best_ms(bestModelMs(tune));
  for (const Workload& workload : tune.workloads()) {
    if (workload.hash() != workload_hash) {
      continue;
    }
    progress.set_summary(workload.summary());
    progress.set_trials(workload.trials());
    progress.set_default_ms(workload.default_ms());
    progress.set_best_ms(workload.best_ms());
    if (workload.best_ms() > 0) {
      const double flops = static_cast<double>(workload.flops()) / (workload.best_ms() / 1000);
      const double peak = peakOf(action.target(), std::max(1, tune.spec().threads()));
      progress.set_gflops(flops / 1e9);
      progress.set_share_of_peak(peak > 0 ? flops / peak : 0);
    }
  }
  const int64_t elapsed_us = now_us - tune.search_start_us();
  const int left = progress.total() - progress.done();
  // Linear extrapolation by trials; the budget is the limit.
  const int64_t needed_us = progress.done() > 0 ? elapsed_us / progress.done() * left : INT64_MAX / 4;
  progress.set_expected_end_us(std::min(tune.budget_end_us(), now_us + needed_us));
  return progress;
}

v1::TuneResult tuneResult(const v1::Action& action) {
  const v1::TuneState& tune = action.tune();
  v1::TuneResult result = tune.compared();
  *result.mutable_workloads() = tune.workloads();
  result.set_default_artifact_id(tune.default_artifact_id());
  result.set_artifact_id(action.result().artifact_id());
  if (tune.has_pins()) {
    *result.mutable_pins() = tune.pins();
  }
  *result.mutable_choices() = tune.choices();
  result.set_trials(doneOf(tune));
  result.set_note(tune.note());
  return result;
}

}  // namespace tessera::server
