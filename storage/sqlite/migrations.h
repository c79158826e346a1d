#pragma once

#include <vector>

namespace tessera::storage {

/// A migration of the schema, from storage/migrations/<version>_<name>.sql or
/// storage/postgres/migrations/.
struct Migration {
  int version;
  const char* name;
  const char* sql;
};

/// All migrations of this release for SQLite and for PostgreSQL, each numbered from 1 without gaps.
const std::vector<Migration>& migrations();
const std::vector<Migration>& postgresMigrations();

}  // namespace tessera::storage
