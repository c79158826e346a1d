// tessera tune: searches schedules for a model's workloads by measuring.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/label_flags.h"
#include "clients/cli/local_flags.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "clients/cli/tuning.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

struct Flags {
  ModelFlags model;
  TuneFlags tune;
  LabelFlags labels;
  LocalFlags service;
  std::string output;
  bool detach = false;
};

int tune(CommandLine& line, const Flags& flags) {
  const std::string output =
      flags.output.empty() ? fs::path(flags.model.model).stem().string() + ".pins" : flags.output;
  if (!flags.detach) {
    if (absl::Status place = checkOutputPath(output); !place.ok()) return reportError(place, line.json);
  }
  const auto service = flags.service.start(line);
  if (!service.ok()) return reportError(service.status(), line.json);
  std::unique_ptr<InterruptWatch> interrupts;  // before the first connection
  if (!flags.detach) interrupts = std::make_unique<InterruptWatch>();
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  const absl::Cleanup unwatch = [&interrupts] { interrupts.reset(); };

  CompileRequest request;
  v1::TuneSpec spec;
  absl::Status status = flags.model.fill(request);
  if (status.ok()) status = flags.tune.fill(spec);
  if (status.ok() && !request.pins_path.empty())
    status = failureStatus(v1::Failure::INVALID_INPUT,
                           "tune finds the schedules itself: leave out --pin, --plan, --suggest");
  auto labels = flags.labels.parse();
  if (status.ok()) status = labels.status();
  if (!status.ok()) return reportError(status, line.json);
  request.labels = *std::move(labels);

  ProgressView view(line.quiet || line.json);
  auto uploaded =
      uploadCompile(channel, request, [&](int64_t done, int64_t total) { view.transfer("upload", done, total); });
  if (!uploaded.ok()) return reportError(uploaded.status(), line.json);
  convertToTune(*uploaded, std::move(spec));
  uploaded->mode = flags.tune.chosenMode();
  if (interrupts) interrupts->jobMayExist();
  auto created = createCompile(channel, *uploaded);
  if (!created.ok()) return reportError(created.status(), line.json);
  const std::string id = created->job.id();
  if (flags.detach) {
    view.finish();
    std::cout << (line.json ? toJson(created->job) : id) << "\n";
    return 0;
  }
  interrupts->setCancelAction([&channel, id] { announceAndCancel(channel, id, "ending with the results so far:"); });
  auto job = awaitJob(channel, id, [&](const v1::JobEvent& event) { view.event(event); },
                      {.on_waiting = [&](const std::string& reason) { view.waits(reason); }});
  view.finish();
  if (!job.ok()) return reportError(job.status(), line.json);
  const bool ended_early = job->state() == v1::Job::CANCELLED && job->tune_result().workloads_size() > 0;
  if (job->state() != v1::Job::SUCCEEDED && !ended_early) {
    if (line.json) {
      std::cout << absl::StrCat("{\"job\":", toJson(*job), "}\n");
    } else {
      std::cerr << "tessera: job " << id << " " << stateText(job->state()) << ": " << failureText(job->failure());
    }
    return exitCodeOf(job->failure());
  }
  auto pins = tunedPins(channel, *job);
  status = pins.ok() ? writeText(output, *pins) : pins.status();
  if (!status.ok()) return reportError(status, line.json);
  if (line.json) {
    std::cout << absl::StrCat("{\"job\":", toJson(*job), ",\"output\":", jsonString(output), "}\n");
    return 0;
  }
  std::cout << tuneText(*job);
  if (ended_early) std::cout << "  ended early: the best trees were neither confirmed nor run together\n";
  for (const std::string& piece : flags.tune.workloads) {
    const bool known = std::ranges::any_of(job->tune_result().workloads(), [&piece](const auto& workload) {
      return absl::StrContains(workload.hash(), piece) || absl::StrContains(workload.summary(), piece);
    });
    if (!known) std::cerr << "tessera: --workload " << piece << ": no workload has this in its hash or summary\n";
  }
  std::cout << "  " << output << ": `tessera compile MODEL --pin " << output << "` compiles with them";
  const v1::TuneResult& result = job->tune_result();
  const bool of_these = !result.has_pins() || result.artifact_id() != result.default_artifact_id();
  if (!result.artifact_id().empty() && !ended_early && of_these)
    std::cout << "; artifact " << result.artifact_id() << " is that";
  std::cout << "\n";
  return 0;
}

}  // namespace

void addTuneCommand(CommandLine& line) {
  CLI::App* command =
      line.add("tune", "Search schedules for a model's workloads: candidates are built, checked and timed on workers");
  auto flags = std::make_shared<Flags>();
  flags->model.addTo(command);
  command->add_option("-o,--output", flags->output,
                      "output file of the best schedules (default: MODEL's stem + .pins)");
  flags->tune.addTo(command);
  flags->labels.addTo(command);
  command->add_flag("--detach", flags->detach, "print the job's id and exit; `tessera job ID` shows the result");
  flags->service.addTo(command);
  command->footer(
      "The service does the work, so the job continues if this command is killed. Every trial is a record\n(`tessera "
      "records`), and later searches start from the best of them. A candidate that is wrong, crashes or\nhangs is "
      "counted in the table and never ends the search. Ctrl-C ends the search with the results so far.");
  command->callback([&line, flags] { line.action = [&line, flags] { return tune(line, *flags); }; });
}

}  // namespace tessera::client
