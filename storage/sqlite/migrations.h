#pragma once

#include <vector>

namespace tessera::storage {

/// A migration of the schema, from storage/migrations/<version>_<name>.sql.
struct Migration {
  int version;
  const char* name;
  const char* sql;
};

/// All migrations of this release, numbered from 1 without gaps.
const std::vector<Migration>& migrations();

}  // namespace tessera::storage
