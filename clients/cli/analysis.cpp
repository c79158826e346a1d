#include "clients/cli/analysis.h"

#include <iostream>
#include <memory>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/progress.h"
#include "clients/cpp/compile.h"
#include "clients/cpp/transfer.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

absl::StatusOr<CompileRequest> requestOf(const AnalysisFlags& flags) {
  CompileRequest request;
  TESSERA_RETURN_IF_ERROR(flags.model.fill(request));
  request.priority = flags.priority;
  for (auto [text, field] : {std::pair{&flags.queue_timeout, &request.queue_timeout_us},
                             std::pair{&flags.run_timeout, &request.run_timeout_us}}) {
    if (text->empty()) continue;
    TESSERA_ASSIGN_OR_RETURN(auto parsed, parseDuration(*text));
    *field = parsed;
  }
  return request;
}

/// Runs the job to its end and downloads its result: the report of an analysis, or without a question the artifact.
absl::StatusOr<std::string> runJob(CommandLine& line, const AnalysisFlags& flags,
                                   std::optional<v1::AnalyzeSpec::Question> question) {
  TESSERA_ASSIGN_OR_RETURN(const auto service, flags.service.start(line));
  // Created before the first connection, whose threads inherit its signal mask.
  auto interrupts = std::make_unique<InterruptWatch>();
  TESSERA_ASSIGN_OR_RETURN(auto connected, line.connect());
  Channel& channel = *connected;
  const absl::Cleanup unwatch = [&interrupts] { interrupts.reset(); };  // its thread uses the channel

  TESSERA_ASSIGN_OR_RETURN(auto request, requestOf(flags));
  ProgressView view(line.quiet || line.json);
  auto uploaded =
      uploadCompile(channel, request, [&](int64_t done, int64_t total) { view.transfer("upload", done, total); });
  if (!uploaded.ok()) return uploaded.status();
  if (question) convertToAnalysis(*uploaded, *question);
  interrupts->jobMayExist();
  TESSERA_ASSIGN_OR_RETURN(auto outcome, createCompile(channel, *uploaded));
  interrupts->setCancelAction([&channel, id = outcome.job.id()] { announceAndCancel(channel, id, "cancelling"); });
  auto job = awaitJob(channel, outcome.job.id(), [&](const v1::JobEvent& event) { view.event(event); },
                      {.on_waiting = [&](const std::string& reason) { view.waits(reason); }});
  view.finish();
  if (!job.ok()) return job.status();
  if (job->state() != v1::Job::SUCCEEDED) return failureStatus(job->failure());
  return downloadBytes(channel, question ? job->analyze_result().report() : job->compile_result().artifact());
}

}  // namespace

void AnalysisFlags::addTo(CLI::App* command) {
  model.addTo(command);
  command->add_option("--queue-timeout", queue_timeout, "how long the job may wait for a worker, e.g. 30s");
  command->add_option("--timeout", run_timeout, "how long the answer may take, e.g. 5m");
  command->add_option("--priority", priority, "jobs with higher priority run first")->capture_default_str();
  service.addTo(command);
}

absl::StatusOr<std::string> requestAnalysis(CommandLine& line, const AnalysisFlags& flags,
                                            v1::AnalyzeSpec::Question question) {
  return runJob(line, flags, question);
}

absl::StatusOr<std::string> requestArtifact(CommandLine& line, const AnalysisFlags& flags) {
  return runJob(line, flags, std::nullopt);
}

}  // namespace tessera::client
