#pragma once

#include "absl/status/status.h"
#include "proto/messages/failure_class.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::client {

ExitCode exitCodeOf(const absl::Status& status);
ExitCode exitCodeOf(const v1::Failure& failure);

/// kExitOk without problems; kExitInvalid if the model itself is wrong somewhere; else kExitUnsupported if a valid
/// model uses an unsupported feature; else (dimensions to bind, files to supply) the code of the first problem.
ExitCode exitCodeOf(const v1::CheckReport& report);

}  // namespace tessera::client
