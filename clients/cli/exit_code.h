#pragma once

#include "absl/status/status.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::client {

/// Exit codes of every command, part of the interface (README, "Exit codes").
enum ExitCode {
  kExitOk = 0,
  kExitInternal = 1,     ///< our fault, or the service's
  kExitUsage = 2,        ///< the command line
  kExitInvalid = 3,      ///< the model, the target or an input tensor: fix it and try again
  kExitUnsupported = 4,  ///< valid, but not compiled yet
  kExitNotFound = 5,     ///< no such job, artifact, target, worker, file
  kExitDeadline = 6,     ///< a queue or run deadline passed
  kExitCancelled = 7,
  kExitUnreachable = 8,   ///< no server answers
  kExitIncompatible = 9,  ///< the artifact cannot run on this host
  kExitCrashed = 10,      ///< the task crashed or ran out of memory; a reproducer is kept
};

ExitCode exitCodeOf(const absl::Status& status);
ExitCode exitCodeOf(const v1::Failure& failure);

/// kExitOk without problems; kExitInvalid when the model itself is wrong somewhere; else kExitUnsupported when it is
/// valid but uses what is not compiled; else (dimensions to bind, files to give) what its first problem says.
ExitCode exitCodeOf(const v1::CheckReport& report);

}  // namespace tessera::client
