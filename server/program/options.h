#pragma once

#include "absl/status/statusor.h"
#include "server/program/flags.h"
#include "server/server.h"
#include "server/supervisor/supervisor.h"

/// What the parts of the service are started with, of tesserad's flags.
namespace tessera::server {

/// INVALID_ARGUMENT naming the flag for what cannot be served so.
absl::StatusOr<ServerOptions> serverOptions(const Flags& flags);

/// Said at the start. Later it may be missing for a moment, while a release is installed.
absl::Status checkWorkerBinary(const Flags& flags);

SupervisorOptions supervisorOptions(const Flags& flags, const Server& server);

}  // namespace tessera::server
