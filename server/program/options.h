#pragma once

#include "absl/status/statusor.h"
#include "server/program/flags.h"
#include "server/server.h"
#include "server/supervisor/supervisor.h"

/// Options of the service's parts, derived from tesserad's flags.
namespace tessera::server {

/// INVALID_ARGUMENT, naming the flag, for a combination that cannot be served.
absl::StatusOr<ServerOptions> serverOptions(const Flags& flags);

/// Checked at the start only. Later the file may be missing for a moment, while a release is installed.
absl::Status checkWorkerBinary(const Flags& flags);

SupervisorOptions supervisorOptions(const Flags& flags, const Server& server);

}  // namespace tessera::server
