#pragma once

#include "absl/status/status.h"
#include "proto/messages/failure_class.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::client {

ExitCode exitCodeOf(const absl::Status& status);
ExitCode exitCodeOf(const v1::Failure& failure);

/// kExitOk without problems; kExitInvalid when the model itself is wrong somewhere; else kExitUnsupported when it is
/// valid but uses what is not compiled; else (dimensions to bind, files to give) what its first problem says.
ExitCode exitCodeOf(const v1::CheckReport& report);

}  // namespace tessera::client
