#pragma once

#include "absl/status/status.h"
#include "storage/postgres/database.h"

namespace tessera::storage {

/// Brings the tables to this release's schema. Of several servers that start at once, one migrates and the others wait.
/// A newer schema is accepted if its migrations say that programs of this release can use it ("-- compatible: N" in
/// the first line: the oldest schema whose programs can), so that an upgrade can replace one server after another.
absl::Status migrate(PostgresDatabase& database);

}  // namespace tessera::storage
