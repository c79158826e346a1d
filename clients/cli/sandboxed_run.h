#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "clients/cli/local_run.h"
#include "workers/standalone_sandbox.h"

/// `tessera run --sandbox`: runs an artifact of unknown origin in a process of its own that can only compute.
namespace tessera::client {

struct SandboxFlags {
  bool on = false;
  std::vector<std::string> required;
  std::string user, timeout = "10m";
  int64_t memory_bytes = 0, scratch_bytes = int64_t{16} << 30;

  /// Returns the option --sandbox.
  CLI::Option* addTo(CLI::App* command);
};

/// Opens a sandbox with these flags. INCOMPATIBLE_HOST: this machine lacks a required measure. Call it before any
/// thread starts.
absl::StatusOr<std::unique_ptr<worker::StandaloneSandbox>> openSandbox(const SandboxFlags& flags);

struct SandboxedRun {
  std::string artifact;
  const RunInputs& inputs;
  std::string output_folder;
  int repeat, warmup, threads;
  bool steps;
};

/// Runs the artifact and prints the same as `tessera run`, and the sandbox measures that this machine lacks. Returns an
/// exit code. Call it before any thread starts.
int runSandboxed(const CommandLine& line, const SandboxFlags& flags, const SandboxedRun& run);

}  // namespace tessera::client
