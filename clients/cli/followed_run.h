#pragma once

#include <cstdint>
#include <string>

#include "clients/cli/command.h"
#include "clients/cli/local_run.h"

namespace tessera::client {

/// `tessera run --follow`: runs the artifact of a tune job repeatedly, starting with the newest version, and switches
/// to each newer one between two runs.
struct FollowOptions {
  std::string job;
  RunInputs inputs;
  TrustFlags trust;
  std::string output_folder;  ///< results of the last run; empty: not written
  int threads = 1;
  int64_t window_us = 0;  ///< limit since the start of the command; 0: until the job ends
};

/// Returns the exit code.
int followJob(const CommandLine& line, const FollowOptions& run);

}  // namespace tessera::client
