#include "storage/sqlite/migrate.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/sql/rows.h"
#include "storage/sql/transaction.h"
#include "storage/sqlite/migrations.h"

namespace tessera::storage {
namespace {

/// "TSRA", SQLite's application id of our databases.
constexpr int64_t kApplicationId = 0x54535241;

absl::StatusOr<int64_t> number(SqliteDatabase& database, const char* sql) {
  Statement statement = database.prepareOnce(sql);
  TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

/// Moves records that cannot be parsed to another table, so that one bad row does not prevent an upgrade.
absl::Status setUnreadableAside(SqliteDatabase& database) {
  absl::Status status = database.execute(
      "CREATE TABLE IF NOT EXISTS set_aside ("
      "  entity TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (entity, id)) WITHOUT ROWID");
  if (!status.ok()) return status;
  std::vector<std::string> ids;
  {
    Statement rows = database.prepareOnce("SELECT body, id FROM records");
    while (true) {
      TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
      if (!row) break;
      if (!messageOf<v1::TuningRecord>(rows).ok()) ids.emplace_back(rows.bytes(1));
    }
  }
  for (const std::string& id : ids) {
    spdlog::warn("{}: record {} cannot be parsed; it was moved to the table set_aside", database.path(), id);
    for (const char* sql : {"INSERT INTO set_aside SELECT 'record', id, body FROM records WHERE id = ?",
                            "DELETE FROM records WHERE id = ?"}) {
      status = database.prepareOnce(sql).bind(id).run();
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

/// Fills columns of records that earlier schemas did not have.
absl::Status refileRecords(SqliteDatabase& database) {
  constexpr int kAtOnce = 1000;
  TESSERA_RETURN_IF_ERROR(setUnreadableAside(database));
  const std::string token_key;
  SqlTransaction transaction(database, token_key);
  std::vector<v1::TuningRecord> records;
  do {
    // A record that was rewritten has a content hash and is not selected again.
    TESSERA_ASSIGN_OR_RETURN(
        records, allMessages<v1::TuningRecord>(std::move(
                     database.prepareOnce("SELECT body FROM records WHERE content = '' LIMIT ?").bind(kAtOnce))));
    for (const v1::TuningRecord& record : records) TESSERA_RETURN_IF_ERROR(transaction.putRecord(record));
  } while (!records.empty());
  return absl::OkStatus();
}

/// Code that a migration runs after its SQL, in the same transaction. It writes all columns of today's `records`, so it
/// must run after the last migration that adds one (18).
absl::Status runCode(SqliteDatabase& database, const Migration& migration) {
  return migration.version == 18 ? refileRecords(database) : absl::OkStatus();
}

absl::Status apply(SqliteDatabase& database, const Migration& migration) {
  TESSERA_RETURN_IF_ERROR(database.execute("BEGIN IMMEDIATE"));
  absl::Status status = database.execute(migration.sql);
  if (status.ok()) status = runCode(database, migration);
  if (status.ok()) {
    status = database
                 .prepareOnce(
                     "INSERT INTO schema_version (version, name, applied_time) "
                     "VALUES (?, ?, unixepoch() * 1000000)")
                 .bind(migration.version)
                 .bind(migration.name)
                 .run();
  }
  if (status.ok()) status = database.execute("COMMIT");
  if (status.ok()) return status;
  database.rollback();
  return absl::Status(status.code(),
                      absl::StrCat("migration ", migration.name, " of ", database.path(), ": ", status.message()));
}

absl::Status foreignDatabase(const std::string& why) {
  absl::Status status = absl::FailedPreconditionError(why);
  status.SetPayload(kForeignDatabase, absl::Cord());
  return status;
}

}  // namespace

absl::Status migrate(SqliteDatabase& database) {
  TESSERA_ASSIGN_OR_RETURN(int64_t owner, number(database, "PRAGMA application_id"));
  TESSERA_ASSIGN_OR_RETURN(int64_t tables, number(database, "SELECT count(*) FROM sqlite_master"));
  if (tables > 0 && owner != kApplicationId) {
    return foreignDatabase(absl::StrCat(database.path(), ": this database belongs to another program (application id ",
                                        owner, "); name another file or an empty folder"));
  }
  absl::Status status = database.execute(
      "BEGIN IMMEDIATE;"
      "PRAGMA application_id = 0x54535241;"
      "CREATE TABLE IF NOT EXISTS schema_version ("
      "  version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_time INTEGER NOT NULL);"
      "COMMIT");
  if (!status.ok()) {
    database.rollback();
    return status;
  }
  TESSERA_ASSIGN_OR_RETURN(int64_t version, number(database, "SELECT max(version) FROM schema_version"));
  const int newest = migrations().back().version;
  if (version > newest) {
    return foreignDatabase(absl::StrCat(database.path(), ": written by a newer release (schema ", version,
                                        ", this release knows up to ", newest,
                                        "); run that release, or restore a backup from before the upgrade"));
  }
  for (const Migration& migration : migrations()) {
    if (migration.version <= version) continue;
    if (status = apply(database, migration); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tessera::storage
