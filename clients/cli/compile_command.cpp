// tessera compile

#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/label_flags.h"
#include "clients/cli/local_flags.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "clients/cli/trust_flags.h"
#include "clients/cli/tuning.h"
#include "clients/cli/verification_text.h"
#include "clients/cpp/compile.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/local_file.h"
#include "clients/cpp/transfer.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct CompileFlags {
  ModelFlags model;
  std::string output;
  std::string queue_timeout, run_timeout, request_id;
  int priority = 0;
  bool no_cache = false, validate_only = false, detach = false;
  bool verify = false;
  std::string knowledge = "none", tune;
  LabelFlags labels;
  LocalFlags service;
};

std::string phaseText(const v1::Job& job, const CompileTimes& times, double download_ms) {
  std::string text = absl::StrCat("digest ", durationText(times.digest_ms), ", upload ", durationText(times.upload_ms));
  for (const v1::PhaseTime& phase : job.phases()) {
    absl::StrAppend(&text, ", ", phase.phase(), " ", durationText(phase.wall_ms()));
    if (phase.tasks() > 1) {  // tasks within one process share its CPU time
      const std::string cpu = phase.cpu_ms() > 0 ? ", cpu " + durationText(phase.cpu_ms()) : "";
      absl::StrAppend(&text, " (", phase.tasks(), " tasks", cpu, ")");
    }
  }
  absl::StrAppend(&text, ", answer ", durationText(times.answer_ms), ", download ", durationText(download_ms));
  return text;
}

std::string timesJson(const CompileTimes& times, double download_ms) {
  return absl::StrFormat(R"({"digest":%.3f,"upload":%.3f,"answer":%.3f,"download":%.3f})", times.digest_ms,
                         times.upload_ms, times.answer_ms, download_ms);
}

// Downloads the artifact to `path`, unless the same file exists, and writes its signature to `path`.sig.
absl::Status fetchArtifact(Channel& channel, const v1::Digest& artifact, const std::string& path, ProgressView& view) {
  std::error_code error;
  bool there = false;
  if (fs::exists(path, error)) {
    auto present = cachedDigestOfFile(path, defaultDigestCache());
    there = present.ok() && present->sha256() == artifact.sha256();
  }
  if (!there) {
    absl::Status status = downloadFile(channel, artifact, path,
                                       [&](int64_t done, int64_t total) { view.transfer("download", done, total); });
    if (!status.ok()) return status;
  }
  return fetchSignatureAndTrustLocal(channel, artifact.sha256(), path);
}

/// Parses "none", "newest", or the time of a snapshot.
absl::Status readKnowledge(const std::string& text, v1::CompileOptions& options) {
  if (text == "none") return absl::OkStatus();
  v1::Knowledge& knowledge = *options.mutable_knowledge();
  if (text == "newest") {
    knowledge.set_mode(v1::Knowledge::NEWEST);
    return absl::OkStatus();
  }
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error))
    return failureStatus(
        v1::Failure::INVALID_INPUT,
        absl::StrCat(
            "--knowledge: found '", text,
            "', accepted: none, newest, or a time such as 2026-11-23T06:00:00Z (uses the records until then)"));
  knowledge.set_mode(v1::Knowledge::SNAPSHOT);
  knowledge.set_until_us(absl::ToUnixMicros(time));
  return absl::OkStatus();
}

/// The result of a compile job, or of the compilation within a tune job.
absl::StatusOr<v1::CompileResult> resultOf(Channel& channel, const v1::Job& job) {
  if (!job.has_tune_result()) return job.compile_result();
  TESSERA_ASSIGN_OR_RETURN(auto artifact, findBlob(channel, job.tune_result().artifact_id()));
  v1::CompileResult result;
  result.set_artifact_id(artifact.sha256());
  *result.mutable_artifact() = artifact;
  return result;
}

int compile(CommandLine& line, const CompileFlags& flags) {
  const std::string output =
      flags.output.empty() ? fs::path(flags.model.model).stem().string() + ".tsra" : flags.output;
  if (!flags.detach && !flags.validate_only) {
    absl::Status status = checkOutputPath(output, /*regular=*/true);
    if (!status.ok()) return reportError(status, line.json);
  }
  const auto service = flags.service.start(line);
  if (!service.ok()) return reportError(service.status(), line.json);
  std::unique_ptr<InterruptWatch> interrupts;  // before the first connection, whose threads inherit its signal mask
  if (!flags.detach && !flags.validate_only) interrupts = std::make_unique<InterruptWatch>();
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  const absl::Cleanup unwatch = [&interrupts] { interrupts.reset(); };  // its thread uses the channel

  CompileRequest request;
  if (absl::Status status = flags.model.fill(request); !status.ok()) return reportError(status, line.json);
  request.spec.mutable_options()->set_verify(flags.verify);
  if (absl::Status status = readKnowledge(flags.knowledge, *request.spec.mutable_options()); !status.ok())
    return reportError(status, line.json);
  auto labels = flags.labels.parse();
  if (!labels.ok()) return reportError(labels.status(), line.json);
  request.labels = *std::move(labels);
  request.request_id = flags.request_id;
  request.priority = flags.priority;
  request.skip_cache = flags.no_cache;
  request.validate_only = flags.validate_only;
  for (auto [text, field] : {std::pair{&flags.queue_timeout, &request.queue_timeout_us},
                             std::pair{&flags.run_timeout, &request.run_timeout_us}}) {
    if (text->empty()) continue;
    auto parsed = parseDuration(*text);
    if (!parsed.ok()) return reportError(parsed.status(), line.json);
    *field = *parsed;
  }

  const std::string ranges = flags.model.shapes.rangesText();
  if (!ranges.empty() && !line.quiet && !line.json) std::cerr << ranges << "\n";
  ProgressView view(line.quiet || line.json);
  auto uploaded =
      uploadCompile(channel, request, [&](int64_t done, int64_t total) { view.transfer("upload", done, total); });
  if (!uploaded.ok()) return reportError(uploaded.status(), line.json);
  if (!flags.tune.empty()) {
    TuneFlags tune;
    tune.budget = flags.tune;
    v1::TuneSpec spec;
    if (absl::Status status = tune.fill(spec); !status.ok()) return reportError(status, line.json);
    convertToTune(*uploaded, std::move(spec));
  }
  if (interrupts) interrupts->jobMayExist();
  auto outcome = createCompile(channel, *uploaded);
  if (!outcome.ok()) return reportError(outcome.status(), line.json);
  if (flags.validate_only) {
    view.finish();
    std::cout << (line.json ? toJson(outcome->job) : absl::StrCat("valid; action key ", outcome->job.action_key()))
              << "\n";
    return 0;
  }
  if (flags.detach) {
    view.finish();
    std::cout << (line.json ? toJson(outcome->job) : outcome->job.id()) << "\n";
    return 0;
  }
  if (outcome->job.end_time_us() == 0) {
    interrupts->setCancelAction([&channel, id = outcome->job.id()] { announceAndCancel(channel, id, "cancelling"); });
    const auto start = Clock::now();
    auto job = awaitJob(channel, outcome->job.id(), [&](const v1::JobEvent& event) { view.event(event); },
                        {.on_waiting = [&](const std::string& reason) { view.waits(reason); }});
    if (!job.ok()) return reportError(job.status(), line.json);
    outcome->job = std::move(*job);
    outcome->times.answer_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  const v1::Job& job = outcome->job;
  if (job.state() != v1::Job::SUCCEEDED) {
    view.finish();
    if (line.json) {
      std::cout << absl::StrCat("{\"job\":", toJson(job), ",\"times_ms\":", timesJson(outcome->times, 0), "}\n");
    } else {
      std::cerr << "tessera: job " << job.id() << " " << stateText(job.state()) << ": " << failureText(job.failure());
    }
    return exitCodeOf(job.failure());
  }

  const auto start = Clock::now();
  const auto compiled = resultOf(channel, job);
  if (!compiled.ok()) return reportError(compiled.status(), line.json);
  const v1::CompileResult& result = *compiled;
  if (absl::Status status = fetchArtifact(channel, result.artifact(), output, view); !status.ok()) {
    return reportError(status, line.json);
  }
  const double download_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  view.finish();
  v1::Plan plan;
  const bool rounds = request.spec.options().precision() != v1::CompileOptions::PRECISION_UNSPECIFIED;
  if (flags.verify || rounds) {
    auto stored = readPlan(output);
    if (!stored.ok()) return reportError(stored.status(), line.json);
    plan = *std::move(stored);
  }
  if (line.json) {
    std::cout << absl::StrCat("{\"job\":", toJson(job), ",\"output\":", jsonString(output),
                              ",\"times_ms\":", timesJson(outcome->times, download_ms),
                              flags.verify ? ",\"verified\":" + verificationJson(plan) : "",
                              rounds ? ",\"precision\":" + jsonString(precisionText(plan)) : "", "}\n");
    return 0;
  }
  if (job.has_tune_result()) std::cout << tuneText(job);
  std::cout << jobSubject(job) << ": "
            << (job.has_tune_result() ? absl::StrCat(job.tune_result().trials(), " trials")
                : job.cached() ? "from the cache"
                               : absl::StrCat(result.workloads(), " workloads, ", result.workloads_reused(), " reused"))
            << "\n  " << phaseText(job, outcome->times, download_ms) << "\n  artifact " << result.artifact_id()
            << "\n  " << output << " (" << bytesText(result.artifact().size_bytes()) << ")\n";
  if (rounds) std::cout << precisionText(plan);
  if (flags.verify) std::cout << verificationText(plan);
  return 0;
}

}  // namespace

void addCompileCommand(CommandLine& line) {
  CLI::App* command = line.add("compile", "Compile a model on the service and fetch the artifact");
  auto flags = std::make_shared<CompileFlags>();
  flags->model.addTo(command);
  command->add_option("-o,--output", flags->output, "output file (default: MODEL's stem + .tsra)");
  command->add_option("--queue-timeout", flags->queue_timeout, "how long the job may wait to start, e.g. 30s");
  command->add_option("--timeout", flags->run_timeout, "how long one task may run, e.g. 5m");
  command->add_option("--priority", flags->priority, "jobs with higher priority run first")->capture_default_str();
  command->add_option("--request-id", flags->request_id, "equal ids make a repeated command the same job");
  flags->labels.addTo(command);
  command->add_flag("--verify", flags->verify, "compare every step of the compiler with an interpreter");
  command
      ->add_option("--knowledge", flags->knowledge,
                   "tuning records that choose schedules: none, newest, or those until a time (2026-11-23T06:00:00Z), "
                   "which always produces equal artifacts")
      ->capture_default_str();
  command->add_option("--tune", flags->tune, "first search schedules for this time, e.g. 5m (see `tessera tune`)");
  command->add_flag("--no-cache", flags->no_cache, "compile even if an equal request was answered before");
  command->add_flag("--validate-only", flags->validate_only, "check the request without compiling");
  command->add_flag("--detach", flags->detach, "print the job's id and exit");
  flags->service.addTo(command);
  command->callback([&line, flags] { line.action = [&line, flags] { return compile(line, *flags); }; });
}

}  // namespace tessera::client
