#pragma once

#include <cstdint>
#include <string>

#include "clients/cli/command.h"
#include "clients/cli/local_run.h"

namespace tessera::client {

/// `tessera run --follow`: runs the artifact of a tune job again and again, from the version on that is the newest as
/// it begins, and goes over to each newer one between two runs.
struct FollowedRun {
  std::string job;
  RunInputs inputs;
  TrustFlags trust;
  std::string output_folder;  ///< results of the last run; empty: nowhere
  int threads = 1;
  int64_t window_us = 0;  ///< from the start of the command; 0: until the job has ended
};

/// The exit code.
int followJob(const CommandLine& line, const FollowedRun& run);

}  // namespace tessera::client
