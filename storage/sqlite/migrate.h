#pragma once

#include "absl/status/status.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {

/// Payload of the status with which migrate() rejects a database of another program or a newer release.
constexpr const char* kForeignDatabase = "tessera.storage/others-content";

/// Migrates the database to this release's schema, each step in its own transaction. FAILED_PRECONDITION with
/// kForeignDatabase: the file belongs to another program or a newer release.
absl::Status migrate(SqliteDatabase& database);

}  // namespace tessera::storage
