#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "clients/cli/local_flags.h"
#include "clients/cli/model_flags.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// The flags of commands that analyze a model on the service.
struct AnalysisFlags {
  ModelFlags model;
  std::string queue_timeout, run_timeout;
  int priority = 0;
  LocalFlags service;

  void addTo(CLI::App* command);
};

/// Uploads the model, creates the analysis job, shows progress and waits; Ctrl-C cancels the job. Returns the report's
/// bytes: a serialized CheckReport or Explanation. A failed job's Failure becomes the status.
absl::StatusOr<std::string> requestAnalysis(CommandLine& line, const AnalysisFlags& flags,
                                            v1::AnalyzeSpec::Question question);

/// Compiles the model in the same way instead, and returns the artifact's bytes.
absl::StatusOr<std::string> requestArtifact(CommandLine& line, const AnalysisFlags& flags);

}  // namespace tessera::client
