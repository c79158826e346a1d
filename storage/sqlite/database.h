#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sql/database.h"
#include "storage/value.h"

namespace tessera::storage {

class SqliteDatabase;

/// A prepared statement of SQLite. A cached one returns to the cache of its connection when it is released.
class SqliteStatement final : public EngineStatement {
 public:
  /// Owns `statement`. `cache_key` is null if the statement is not cached.
  SqliteStatement(SqliteDatabase& database, sqlite3_stmt* statement, const char* cache_key, absl::Status status)
      : database_(database), statement_(statement), cache_key_(cache_key), status_(std::move(status)) {}
  ~SqliteStatement() override { sqlite3_finalize(statement_); }

  void bindInteger(int64_t value) override;
  void bindReal(double value) override;
  void bindText(std::string_view text) override;
  void bindBlob(std::string_view bytes) override;
  void bindNull() override;
  absl::StatusOr<bool> step() override;
  absl::Status run() override { return step().status(); }
  int64_t integer(int column) const override { return sqlite3_column_int64(statement_, column); }
  double real(int column) const override { return sqlite3_column_double(statement_, column); }
  std::string_view bytes(int column) const override;
  Value value(int column) const override;
  bool isNull(int column) const override { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  void release() override;

 private:
  void check(int result);

  SqliteDatabase& database_;
  sqlite3_stmt* statement_;
  const char* cache_key_;
  int bound_ = 0;
  absl::Status status_;
};

/// One connection to an SQLite file.
class SqliteDatabase final : public Database {
 public:
  enum class Mode { kReadOnly, kReadWriteCreate };
  /// `vfs` is the name of an SQLite VFS; null: the operating system's.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> open(const std::string& path, Mode mode,
                                                              const char* vfs = nullptr);
  ~SqliteDatabase() override;
  /// How long to wait for another connection's lock. Connections of the store contend only during checkpoints and
  /// recovery.
  void setBusyTimeout(std::chrono::milliseconds patience) {
    sqlite3_busy_timeout(handle_, static_cast<int>(patience.count()));
  }

  Statement prepare(const char* sql) override;
  Statement prepareOnce(std::string_view sql) override;
  absl::Status execute(const char* sql) override;
  absl::Status begin() override { return prepare(mode_ == Mode::kReadOnly ? "BEGIN" : "BEGIN IMMEDIATE").run(); }
  absl::Status commit() override { return prepare("COMMIT").run(); }
  void rollback() override;
  bool inTransaction() const override { return sqlite3_get_autocommit(handle_) == 0; }
  int64_t changes() override { return sqlite3_changes(handle_); }

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }
  /// Converts an SQLite error to a status with advice.
  absl::Status error(int result) const;

 private:
  friend class SqliteStatement;
  SqliteDatabase(std::string path, Mode mode, sqlite3* handle) : path_(std::move(path)), mode_(mode), handle_(handle) {}
  void recordFault(int result, const absl::Status& status);

  std::string path_;
  const Mode mode_;
  sqlite3* handle_;
  /// Idle statements by the address of their SQL text; null while in use. Bounded by the number of literals in the
  /// program.
  std::unordered_map<const char*, std::unique_ptr<SqliteStatement>> idle_;
};

}  // namespace tessera::storage
