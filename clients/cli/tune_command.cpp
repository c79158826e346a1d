// tessera tune: search schedules for a model's workloads by measuring.

#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/local_flags.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "clients/cli/tuning.h"
#include "compiler/schedule/pins.h"
#include "compiler/schedule/summary.h"
#include "proto/failure.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

struct TuneFlags {
  ModelFlags model;
  TuningOptions options;
  LocalFlags service;
  std::string budget = "5m", output;
  bool no_records = false;
};

std::string tableOf(const TuningOutcome& outcome) {
  std::vector<std::vector<std::string>> rows;
  for (const TunedWorkload& workload : outcome.workloads) {
    rows.push_back({absl::StrFormat("%.4f", workload.default_ms), absl::StrFormat("%.4f", workload.best_ms),
                    workload.improved ? absl::StrFormat("%.2f", workload.default_ms / workload.best_ms) : "-",
                    absl::StrCat(workload.steps), absl::StrCat(workload.trials), absl::StrCat(workload.refused),
                    absl::StrCat(workload.failed), workload.hash.substr(0, 12),
                    absl::StrCat(workload.summary, "  ", compiler::summarizeSchedule(workload.schedule))});
  }
  return table({"DEFAULT ms", "BEST ms", "GAIN", "STEPS", "TRIALS", "REFUSED", "FAILED", "HASH", "WORKLOAD"}, rows);
}

std::string jsonOf(const TuningOutcome& outcome, const std::string& output) {
  std::string text = absl::StrFormat(
      R"({"default_ms":%.6f,"best_ms":%.6f,"noise":%.6f,"rounds":%d,"artifact_id":%s,"host":%s,"output":%s,"workloads":[)",
      outcome.default_ms, outcome.best_ms, outcome.noise, outcome.rounds, jsonString(outcome.artifact_id),
      jsonString(outcome.host), jsonString(output));
  for (size_t i = 0; i < outcome.workloads.size(); ++i) {
    const TunedWorkload& workload = outcome.workloads[i];
    absl::StrAppend(&text, i > 0 ? "," : "", "{\"hash\":", jsonString(workload.hash),
                    ",\"summary\":", jsonString(workload.summary), ",\"steps\":", workload.steps,
                    ",\"trials\":", workload.trials, ",\"refused\":", workload.refused, ",\"failed\":", workload.failed,
                    ",\"default_ms\":", workload.default_ms, ",\"best_ms\":", workload.best_ms,
                    ",\"improved\":", workload.improved ? "true" : "false",
                    ",\"untuned\":", jsonString(workload.untuned), ",\"failures\":[");
    for (size_t f = 0; f < workload.failures.size(); ++f)
      absl::StrAppend(&text, f > 0 ? "," : "", jsonString(workload.failures[f]));
    text += "]}";
  }
  return text + "]}\n";
}

absl::Status writePins(const std::string& path, const TuningOutcome& outcome, const std::string& model) {
  const std::string head = absl::StrFormat("# tessera tune %s\n# %.4f ms instead of %.4f ms on %s\n", model,
                                           outcome.best_ms, outcome.default_ms, outcome.host);
  return writeText(path, head + compiler::printPins(outcome.pins));
}

int tune(CommandLine& line, const TuneFlags& flags) {
  const auto service = flags.service.start(line);
  if (!service.ok()) return reportError(service.status(), line.json);
  auto interrupts = std::make_unique<InterruptWatch>();  // before the first connection
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  const absl::Cleanup unwatch = [&interrupts] { interrupts.reset(); };

  CompileRequest request;
  TuningOptions options = flags.options;
  options.records = !flags.no_records;
  absl::Status status = flags.model.fill(request);
  if (status.ok() && !request.pins_path.empty())
    status = failureStatus(v1::Failure::INVALID_INPUT,
                           "tune finds the schedules itself: leave out --pin, --plan, --suggest");
  auto budget = parseDuration(flags.budget);
  if (status.ok()) status = budget.status();
  if (!status.ok()) return reportError(status, line.json);
  options.budget = std::chrono::seconds((*budget + 999'999) / 1'000'000);

  std::atomic<bool> stop = false;
  options.stop = [&stop] { return stop.load(); };
  interrupts->jobMayExist();
  interrupts->cancels([&stop] {
    std::cerr << "\ntessera: ending with what was found (once more to leave at once)\n";
    stop = true;
  });
  ProgressView view(line.quiet || line.json);
  auto outcome = client::tune(channel, request, options, [&view](int done, int total, const std::string& what) {
    v1::JobEvent event;
    v1::Progress& progress = *event.mutable_progress();
    progress.set_phase("tune");
    progress.set_done(done);
    progress.set_total(total);
    progress.set_detail(what);
    view.event(event);
  });
  view.finish();
  if (!outcome.ok()) return reportError(outcome.status(), line.json);
  const std::string output =
      flags.output.empty() ? fs::path(request.model_path).stem().string() + ".pins" : flags.output;
  if (absl::Status written = writePins(output, *outcome, request.spec.name()); !written.ok())
    return reportError(written, line.json);
  if (line.json) {
    std::cout << jsonOf(*outcome, output);
    return 0;
  }
  std::cout << tableOf(*outcome)
            << absl::StrFormat("%s: %.4f ms by default, %.4f ms tuned (%.2f times as fast; noise %.1f %%) on %s\n",
                               request.spec.name(), outcome->default_ms, outcome->best_ms,
                               outcome->default_ms / outcome->best_ms, 100 * outcome->noise, outcome->host)
            << "  " << outcome->rounds << " rounds, " << outcome->pins.workloads_size()
            << " schedules changed: " << output << "\n  `tessera compile MODEL --pin " << output
            << "` compiles with them\n";
  return 0;
}

}  // namespace

void addTuneCommand(CommandLine& line) {
  CLI::App* command = line.add(
      "tune", "Search schedules for a model's workloads: candidates are compiled, checked and timed on workers");
  auto flags = std::make_shared<TuneFlags>();
  flags->model.addTo(command);
  command->add_option("-o,--output", flags->output, "where the best schedules go (MODEL's stem + .pins)");
  command->add_option("--trials", flags->options.trials, "measured candidates of each workload, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--budget", flags->budget, "no trial is begun after so long, e.g. 10m")->capture_default_str();
  command->add_option("--threads", flags->options.threads, "of the runs that are timed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--method", flags->options.method, "walk (learns directions that gain), random")
      ->capture_default_str()
      ->check(CLI::IsMember({"walk", "random"}));
  command->add_option("--seed", flags->options.seed, "of proposals and inputs")->capture_default_str();
  command->add_flag("--no-records", flags->no_records, "do not begin with the best that the service has measured");
  flags->service.addTo(command);
  command->footer(
      "Every trial is a record (`tessera records`): a later search begins with the best of them. A candidate that is\n"
      "wrong, crashes or cannot be built is told in the table, and never ends the search. Ctrl-C ends it with what "
      "was\n"
      "found so far.");
  command->callback([&line, flags] { line.action = [&line, flags] { return tune(line, *flags); }; });
}

}  // namespace tessera::client
