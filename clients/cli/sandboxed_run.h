#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "clients/cli/local_run.h"

/// `tessera run --sandbox`: an artifact of unknown origin, run in a process of its own that can do nothing else.
namespace tessera::client {

struct SandboxFlags {
  bool on = false;
  std::vector<std::string> required;
  std::string user, timeout = "10m";
  int64_t memory_bytes = 0, scratch_bytes = int64_t{16} << 30;

  /// The answer is --sandbox itself.
  CLI::Option* addTo(CLI::App* command);
};

struct SandboxedRun {
  std::string artifact;
  const RunInputs& inputs;
  std::string output_folder;
  int repeat, warmup, threads;
  bool steps;
};

/// Runs it and prints what `tessera run` prints, and what of the sandbox this machine lacks. An exit code. Before the
/// first thread.
int runSandboxed(const CommandLine& line, const SandboxFlags& flags, const SandboxedRun& run);

}  // namespace tessera::client
