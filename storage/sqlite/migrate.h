#pragma once

#include "absl/status/status.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {

/// Brings the database to this release's schema, each migration in a transaction of its own.
/// FAILED_PRECONDITION when the file is a database of another program or of a newer release.
absl::Status migrate(Database& database);

}  // namespace tessera::storage
