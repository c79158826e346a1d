#include "storage/postgres/migrate.h"

#include <string>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/sqlite/migrate.h"
#include "storage/sqlite/migrations.h"

namespace tessera::storage {
namespace {

/// Held by the server that migrates. The number is "TSRA".
constexpr const char* kLock = "SELECT pg_advisory_lock(1414746689)";
constexpr const char* kUnlock = "SELECT pg_advisory_unlock(1414746689)";

/// The oldest schema whose programs can use the tables after this migration.
absl::StatusOr<int> compatibleWith(const Migration& migration) {
  const std::string_view sql = migration.sql;
  constexpr std::string_view kPrefix = "-- compatible: ";
  int version = 0;
  if (sql.starts_with(kPrefix) &&
      absl::SimpleAtoi(std::string(sql.substr(kPrefix.size(), sql.find('\n') - kPrefix.size())), &version)) {
    return version;
  }
  return absl::InternalError(absl::StrCat("migration ", migration.name, " does not begin with \"-- compatible: N\""));
}

absl::Status apply(PostgresDatabase& database, const Migration& migration) {
  TESSERA_ASSIGN_OR_RETURN(const int compatible, compatibleWith(migration));
  absl::Status status =
      database.execute(absl::StrCat("BEGIN;", migration.sql, "\n;INSERT INTO schema_version VALUES (",
                                    migration.version, ", '", migration.name, "', now(), ", compatible, "); COMMIT")
                           .c_str());
  if (status.ok()) return status;
  (void)database.execute("ROLLBACK");
  return absl::Status(status.code(), absl::StrCat("migration ", migration.name, ": ", status.message()));
}

absl::StatusOr<int> number(PostgresDatabase& database, const char* sql) {
  TESSERA_ASSIGN_OR_RETURN(const std::string text, database.answer(sql));
  int number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return absl::InternalError(absl::StrCat(database.name(), ": ", sql, " returned \"", text, "\""));
}

}  // namespace

absl::Status migrate(PostgresDatabase& database) {
  TESSERA_RETURN_IF_ERROR(database.execute(kLock));
  const absl::Cleanup unlock = [&] { (void)database.execute(kUnlock); };
  TESSERA_RETURN_IF_ERROR(database.execute(
      "CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, name text NOT NULL, applied_time "
      "timestamptz NOT NULL, compatible integer NOT NULL)"));
  TESSERA_ASSIGN_OR_RETURN(const int known, number(database, "SELECT coalesce(max(version), 0) FROM schema_version"));
  TESSERA_ASSIGN_OR_RETURN(const int compatible,
                           number(database, "SELECT coalesce(max(compatible), 0) FROM schema_version"));
  const int newest = postgresMigrations().back().version;
  if (compatible > newest) {
    absl::Status status = absl::FailedPreconditionError(absl::StrCat(
        database.name(), ": written by a newer release (schema ", known, ", this release knows up to ", newest,
        "); run that release, or restore a backup from before the "
        "upgrade"));
    status.SetPayload(kForeignDatabase, absl::Cord());
    return status;
  }
  for (const Migration& migration : postgresMigrations()) {
    if (migration.version <= known) continue;
    TESSERA_RETURN_IF_ERROR(apply(database, migration));
  }
  return absl::OkStatus();
}

}  // namespace tessera::storage
