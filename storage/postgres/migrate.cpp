#include "storage/postgres/migrate.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/sqlite/migrate.h"
#include "storage/sqlite/migrations.h"

namespace tessera::storage {
namespace {

/// Held by the server that migrates. The number is "TSRA".
constexpr const char* kLock = "SELECT pg_try_advisory_lock(1414746689)";
constexpr const char* kUnlock = "SELECT pg_advisory_unlock(1414746689)";

/// A migration of large tables takes long; a server that starts meanwhile waits for it.
constexpr std::chrono::minutes kLongest(60);
constexpr std::chrono::milliseconds kPause(200);

absl::Status lockMigrations(PostgresDatabase& database) {
  const auto give_up = std::chrono::steady_clock::now() + kLongest;
  for (bool told = false;; std::this_thread::sleep_for(kPause)) {
    TESSERA_ASSIGN_OR_RETURN(const std::string locked, database.answer(kLock));
    if (locked == "t") return absl::OkStatus();
    if (std::chrono::steady_clock::now() > give_up) {
      return absl::UnavailableError(absl::StrCat(database.name(), ": another server has been migrating it for ",
                                                 kLongest.count(), " minutes; look at its log"));
    }
    if (!std::exchange(told, true)) spdlog::info("{}: waiting for the server that migrates it", database.name());
  }
}

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
      database
          .answer(absl::StrCat("BEGIN;", migration.sql, "\n;INSERT INTO schema_version VALUES (", migration.version,
                               ", '", migration.name, "', now(), ", compatible, "); COMMIT"),
                  kLongest)
          .status();
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
  TESSERA_RETURN_IF_ERROR(lockMigrations(database));
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
