#pragma once

#include <vector>

namespace tessera::storage {

/// One step of the schema, from storage/migrations/<version>_<name>.sql.
struct Migration {
  int version;
  const char* name;
  const char* sql;
};

/// All steps this release knows, ascending from 1 without gaps.
const std::vector<Migration>& migrations();

}  // namespace tessera::storage
