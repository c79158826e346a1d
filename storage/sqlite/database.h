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
#include "storage/sqlite/savepoints.h"
#include "storage/value.h"

namespace tessera::storage {

class Database;

/// A prepared statement and its parameters. Errors of preparing and binding are deferred to step() or run(), so that
/// calls can be chained. A cached statement returns to its cache when destroyed.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Binds the next parameter, from left to right.
  Statement& bind(int64_t value);
  Statement& bind(int value) { return bind(static_cast<int64_t>(value)); }
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind(const std::string& text) { return bind(std::string_view(text)); }
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(const Value& value);
  Statement& bindBlob(std::string_view bytes);
  Statement& bindNull();

  /// Advances to the next row; false if there is none.
  absl::StatusOr<bool> step();
  /// Executes a statement that returns no rows.
  absl::Status run();

  /// Columns of the current row, from 0. Views are valid until the next step.
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string_view bytes(int column) const;
  Value value(int column) const;
  bool isNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* statement, const char* cache_key, absl::Status status)
      : database_(database), statement_(statement), cache_key_(cache_key), status_(std::move(status)) {}
  void check(int result);

  Database* database_;
  sqlite3_stmt* statement_;
  const char* cache_key_;  ///< null: not cached
  int bound_ = 0;
  absl::Status status_;
};

/// One connection. Not thread-safe; may move between threads.
class Database {
 public:
  enum class Mode { kReadOnly, kReadWriteCreate };
  /// `vfs` is the name of an SQLite VFS; null: the operating system's.
  static absl::StatusOr<std::unique_ptr<Database>> open(const std::string& path, Mode mode, const char* vfs = nullptr);
  /// How long to wait for another connection's lock. Connections of the store contend only during checkpoints and
  /// recovery.
  void setBusyTimeout(std::chrono::milliseconds patience) {
    sqlite3_busy_timeout(handle_, static_cast<int>(patience.count()));
  }
  ~Database();

  /// `sql` must be a string literal: statements are cached by its address.
  Statement prepare(const char* sql);
  /// Prepares a statement created at run time, without caching it.
  Statement prepareOnce(std::string_view sql);
  /// Runs one or more statements that take no parameters.
  absl::Status execute(const char* sql);
  /// Nested parts of the open transaction that can be rolled back alone.
  Savepoints& savepoints() { return savepoints_; }
  /// Rolls back the open transaction, if any.
  void rollback();
  bool inTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  /// Rows changed by the last INSERT, UPDATE or DELETE.
  int changes() const { return sqlite3_changes(handle_); }

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }
  /// Converts an SQLite error to a status with advice.
  absl::Status error(int result) const;
  /// The first error since clearFault() that invalidates the open transaction: a failure of the disk, the file or
  /// memory, as opposed to a constraint violation or a wrong query.
  const absl::Status& fault() const { return fault_; }
  void setFault(const absl::Status& status) {
    if (fault_.ok()) fault_ = status;
  }
  void clearFault() { fault_ = absl::OkStatus(); }

 private:
  friend class Statement;
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
  void recordFault(int result, const absl::Status& status);

  std::string path_;
  sqlite3* handle_;
  absl::Status fault_;
  Savepoints savepoints_{*this};
  /// Idle statements by the address of their SQL text; null while in use. Bounded by the number of literals in the
  /// program.
  std::unordered_map<const char*, sqlite3_stmt*> idle_;
};

}  // namespace tessera::storage
