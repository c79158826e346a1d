#pragma once

#include "absl/status/status.h"
#include "server/program/flags.h"

namespace tessera::server {

/// Copies all data from --migrate-from to the place that the other flags name, with the key that signs artifacts, and
/// prints a summary; progress goes to standard error. FAILED_PRECONDITION if the copy is not complete, because a
/// service uses the source.
absl::Status migrateData(const Flags& flags);

}  // namespace tessera::server
