#pragma once

#include <string>

#include "clients/cli/command.h"
#include "clients/cli/local_run.h"
#include "compiler/runtime/artifact_reader.h"

/// `tessera run` of an artifact for OpenCL devices: the first device of the machine runs it.
namespace tessera::client {

struct OpenClRunRequest {
  compiler::ArtifactFile file;
  const RunInputs& inputs;
  std::string output_folder;
  int repeat = 1, warmup = 0;
  bool steps = false, verify_weights = false;
};

/// Runs the program, and prints its latency with the copies to and from the device, and the time of each step on the
/// device with `steps`. Returns the exit code.
int runOpenCl(const CommandLine& line, const OpenClRunRequest& request);

}  // namespace tessera::client
