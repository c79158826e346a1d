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
  command->add_option("--trials", trials, "limit of measured candidates for each workload (64)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--budget", budget, "no trial starts after this time, e.g. 10m")->capture_default_str();
  command
      ->add_option("--choices", choices,
                   "number of graph choices to measure (algorithms, fusions, splits) whose predicted costs are too "
                   "close to decide, in at most a third of the budget (8); 0: none")
      ->check(CLI::Range(0, 1000));
  command->add_option("--threads", threads, "threads of the timed runs")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--method", method,
                   "search method: model (the default; a cost model, also trained on earlier records, selects "
                   "candidates), q (learns values of directions), walk (prefers directions that gained before), p "
                   "(tries every direction), random, evolutionary")
      ->check(CLI::IsMember(std::vector<std::string>(kSearchMethods.begin(), kSearchMethods.end())));
  command
      ->add_option(
          "--mode", mode,
          "when versions of the artifact are published (`tessera run --follow JOB`): async (at once, and whenever "
          "faster schedules are confirmed), sync (at once, and after each batch of all searches), static (at the end)")
      ->check(CLI::IsMember({"async", "sync", "static"}))
      ->capture_default_str();
  command->add_option("--seed", seed, "seed of proposals and inputs")->capture_default_str();
  command->add_option("--workload", workloads,
                      "search only workloads with this text in their hash or summary; may be repeated");
  command->add_option("--top", top, "search only this many workloads, those with the most time")
      ->check(CLI::Range(1, 100'000));
  command->add_flag("--cold", cold, "evict operands from all caches before each timed run");
  command->add_flag("--no-records", no_records, "ignore earlier records of the service");
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

void convertToTune(UploadedCompile& uploaded, v1::TuneSpec spec) {
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
    text = absl::StrCat("measured choices of the graph:\n", table(header, rows));
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
