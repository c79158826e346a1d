#include "clients/cli/tuning.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/explanation_text.h"
#include "clients/cli/output.h"
#include "clients/cpp/transfer.h"
#include "compiler/schedule/pins.h"
#include "compiler/schedule/summary.h"
#include "proto/messages/search_methods.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

void TuneFlags::addTo(CLI::App* command) {
  command->add_option("--trials", trials, "measured candidates of each workload, at most (64)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--budget", budget, "no trial is begun so long after the job began to run, e.g. 10m")
      ->capture_default_str();
  command
      ->add_option(
          "--choices", choices,
          "choices of the graph (algorithms, fusions, splits) whose alternatives are within the error of their "
          "prices: so many are measured, in a third of the budget at most (8); 0: none")
      ->check(CLI::Range(0, 1000));
  command->add_option("--threads", threads, "of the runs that are timed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--method", method,
                   "of the search: model (the default; what a cost model expects most of, which learns from earlier "
                   "searches too), q (learns the value of directions), walk (goes where they have gained), p (every "
                   "direction), random, evolutionary")
      ->check(CLI::IsMember(std::vector<std::string>(kSearchMethods.begin(), kSearchMethods.end())));
  command
      ->add_option(
          "--mode", mode,
          "when the artifact can be had (`tessera run --follow JOB`): async (at once, and again whenever faster "
          "trees are confirmed), sync (again after a phase of all searches), static (when all is over)")
      ->check(CLI::IsMember({"async", "sync", "static"}))
      ->capture_default_str();
  command->add_option("--seed", seed, "of proposals and inputs")->capture_default_str();
  command->add_option("--workload", workloads,
                      "only workloads with this piece in their hash or summary; may be given several times");
  command->add_option("--top", top, "only so many workloads, those with the most time")->check(CLI::Range(1, 100'000));
  command->add_flag("--cold", cold, "operands are out of all caches before each timed run");
  command->add_flag("--no-records", no_records, "do not begin with the best that the service has measured");
}

v1::TuneMode TuneFlags::chosenMode() const {
  v1::TuneMode chosen = v1::ASYNC;
  v1::TuneMode_Parse(absl::AsciiStrToUpper(mode), &chosen);
  return chosen;
}

absl::Status TuneFlags::fill(v1::TuneSpec& spec) const {
  TESSERA_ASSIGN_OR_RETURN(auto parsed, parseDuration(budget));
  spec.set_budget_us(parsed);
  spec.set_method(method);
  spec.set_trials(trials);
  spec.set_threads(threads);
  spec.set_seed(seed);
  spec.set_cold(cold);
  spec.set_top(top);
  if (choices >= 0) spec.set_choices(choices);
  spec.set_ignore_records(no_records);
  spec.mutable_workloads()->Assign(workloads.begin(), workloads.end());
  return absl::OkStatus();
}

void tuneInstead(UploadedCompile& uploaded, v1::TuneSpec spec) {
  *spec.mutable_compile() = std::move(*uploaded.create.mutable_compile());
  *uploaded.create.mutable_tune() = std::move(spec);
}

namespace {

/// Fused groups: the limit by the chip's peak, the predicted cost, and the measured time.
std::string fusionText(const v1::TuneResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::TuneResult::Workload& workload : result.workloads()) {
    if (!workload.has_fusion()) continue;
    std::vector<std::string> row = fusionCells(workload.fusion());
    row.push_back(absl::StrFormat("%.1f", 1e3 * workload.default_ms()));
    row.push_back(workload.summary());
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  std::vector<std::string> header = fusionHeader();
  header.insert(header.end(), {"MEASURED us", "WORKLOAD"});
  return absl::StrCat("fused, predicted and measured:\n", table(header, rows));
}

/// Lists the measured choices, and counts the others.
std::string choicesText(const v1::TuneResult& result) {
  std::vector<std::vector<std::string>> rows;
  int left_out = 0;
  for (const v1::TuneResult::ChoiceTrial& trial : result.choices()) {
    if (trial.ms() == 0) {
      ++left_out;
      continue;
    }
    std::vector<std::string> row = openChoiceCells(trial.open());
    const std::string where = std::move(row.back());
    row.back() = absl::StrFormat("%.4f", trial.before_ms());
    row.insert(row.end(), {absl::StrFormat("%.4f", trial.ms()), trial.taken() ? "taken" : "left", where});
    rows.push_back(std::move(row));
  }
  std::string text;
  if (!rows.empty()) {
    std::vector<std::string> header = openChoiceHeader();
    header.back() = "BEFORE ms";
    header.insert(header.end(), {"WITH ms", "", "WHERE"});
    text = absl::StrCat("choices that prices did not settle:\n", table(header, rows));
  }
  if (left_out > 0)
    absl::StrAppend(&text, "  ", left_out, " more open choices were not measured (--choices, --budget)\n");
  return text;
}

}  // namespace

std::string tuneText(const v1::Job& job) {
  const v1::TuneResult& result = job.tune_result();
  std::vector<std::vector<std::string>> rows;
  int changed = 0;
  for (const v1::TuneResult::Workload& workload : result.workloads()) {
    const bool faster = workload.has_best();
    changed += faster ? 1 : 0;
    rows.push_back({absl::StrFormat("%.1f", 100 * workload.share()), millisecondsText(workload.default_ms()),
                    millisecondsText(workload.best_ms()),
                    faster ? absl::StrFormat("%.2f", workload.default_ms() / workload.best_ms()) : "-",
                    absl::StrCat(workload.steps()), absl::StrCat(workload.trials()), absl::StrCat(workload.refused()),
                    absl::StrCat(workload.wrong() + workload.crashed() + workload.timed_out() + workload.unbuilt()),
                    workload.hash().substr(0, 12),
                    absl::StrCat(workload.summary(), faster ? "  " + compiler::summarizeSchedule(workload.best()) : "",
                                 workload.shared() ? "  (another job's search)" : "")});
  }
  std::string text = table(
      {"TIME %", "DEFAULT ms", "BEST ms", "GAIN", "STEPS", "TRIALS", "REFUSED", "FAILED", "HASH", "WORKLOAD"}, rows);
  text += fusionText(result);
  text += choicesText(result);
  const std::string& name = job.tune().compile().name();
  if (result.default_ms() > 0) {
    absl::StrAppendFormat(&text, "%s: %s ms by default, %s ms tuned (%.2f times as fast; noise %.1f %%) on %s\n", name,
                          millisecondsText(result.default_ms()), millisecondsText(result.best_ms()),
                          result.default_ms() / result.best_ms(), 100 * result.noise(), result.host().hostname());
  }
  absl::StrAppend(&text, "  ", result.trials(), " trials, ", changed, " faster schedules",
                  result.note().empty() ? "" : "; " + result.note(), "\n");
  return text;
}

absl::StatusOr<std::string> tunedPins(Channel& channel, const v1::Job& job) {
  const v1::TuneResult& result = job.tune_result();
  if (result.has_pins()) return downloadBytes(channel, result.pins());
  v1::Pins pins;
  if (job.state() == v1::Job::CANCELLED) {
    for (const v1::TuneResult::Workload& workload : result.workloads()) {
      if (workload.has_best()) compiler::pinWorkload(pins, workload.hash(), workload.summary(), workload.best());
    }
  }
  const std::string text = compiler::printPins(pins);
  return text.empty() ? "# no schedule is faster than the default\n" : text;
}

}  // namespace tessera::client
