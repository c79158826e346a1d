#pragma once

#include "absl/status/status.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {

/// The payload of a status by which migrate() refused what another program or a newer release wrote.
constexpr const char* kOthersContent = "tessera.storage/others-content";

/// Brings the database to this release's schema, each migration in a transaction of its own.
/// FAILED_PRECONDITION when the file is a database of another program or of a newer release, with kOthersContent.
absl::Status migrate(Database& database);

}  // namespace tessera::storage
