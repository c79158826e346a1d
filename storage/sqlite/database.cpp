#include "storage/sqlite/database.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::storage {
namespace {

struct ErrorClass {
  int primary;  ///< SQLite's primary result code
  absl::StatusCode code;
  bool fault;
  const char* advice;
};
constexpr ErrorClass kErrorClasses[] = {
    {SQLITE_CORRUPT, absl::StatusCode::kDataLoss, true, "the file is damaged; restore it from a backup"},
    {SQLITE_NOTADB, absl::StatusCode::kDataLoss, true, "the file is not a database, or its head is damaged"},
    {SQLITE_FULL, absl::StatusCode::kResourceExhausted, true, "the disk is full; free some space and retry"},
    {SQLITE_IOERR, absl::StatusCode::kUnavailable, true, "the disk failed or is full; nothing was stored"},
    {SQLITE_NOMEM, absl::StatusCode::kResourceExhausted, true, "out of memory"},
    {SQLITE_CANTOPEN, absl::StatusCode::kFailedPrecondition, true, "check that the folder exists and is writable"},
    {SQLITE_READONLY, absl::StatusCode::kFailedPrecondition, true, "check the permissions of the file"},
    {SQLITE_PERM, absl::StatusCode::kPermissionDenied, true, "check the permissions of the file"},
    {SQLITE_BUSY, absl::StatusCode::kUnavailable, true, "another program uses the database; retry"},
    {SQLITE_LOCKED, absl::StatusCode::kUnavailable, true, "retry"},
    {SQLITE_INTERRUPT, absl::StatusCode::kCancelled, true, "interrupted"},
    {SQLITE_TOOBIG, absl::StatusCode::kResourceExhausted, false, "one value is larger than 1 GB"},
};

/// Disables memory statistics before the first connection: they are unused, and SQLite would take a global lock for
/// each allocation.
void configureOnce() {
  static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)configured;  // fails harmlessly if the process used SQLite before
}

}  // namespace

void SqliteStatement::release() {
  // A statement that is not reset keeps its read transaction open, and with it the end of the write-ahead log that a
  // checkpoint may reuse. Bindings are cleared because they can hold large blobs.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  std::unique_ptr<SqliteStatement> self(this);
  if (cache_key_ == nullptr || !status_.ok()) return;
  // Keyed by the address of the SQL text: `prepare` accepts constants only. If two copies of a statement were in use
  // at the same time, the second is discarded.
  if (std::unique_ptr<SqliteStatement>& place = database_.idle_[cache_key_]; place == nullptr) {
    bound_ = 0;
    place = std::move(self);
  }
}

void SqliteStatement::check(int result) {
  if (result != SQLITE_OK && status_.ok()) status_ = database_.error(result);
}

void SqliteStatement::bindInteger(int64_t value) {
  if (status_.ok()) check(sqlite3_bind_int64(statement_, ++bound_, value));
}
void SqliteStatement::bindReal(double value) {
  if (status_.ok()) check(sqlite3_bind_double(statement_, ++bound_, value));
}
void SqliteStatement::bindText(std::string_view text) {
  if (!status_.ok()) return;
  // A null pointer would be bound as NULL, which NOT NULL columns refuse.
  check(sqlite3_bind_text64(statement_, ++bound_, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
}
void SqliteStatement::bindBlob(std::string_view bytes) {
  if (!status_.ok()) return;
  check(sqlite3_bind_blob64(statement_, ++bound_, bytes.data() ? bytes.data() : "", bytes.size(), SQLITE_TRANSIENT));
}
void SqliteStatement::bindNull() {
  if (status_.ok()) check(sqlite3_bind_null(statement_, ++bound_));
}

absl::StatusOr<bool> SqliteStatement::step() {
  if (!status_.ok()) return status_;
  const bool writes = sqlite3_stmt_readonly(statement_) == 0;
  if (writes) {
    status_ = database_.savepoints().beforeWrite();
    if (!status_.ok()) {
      database_.setFault(status_);
      return status_;
    }
  }
  const int result = sqlite3_step(statement_);
  if (writes) database_.savepoints().afterWrite(result == SQLITE_DONE);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  status_ = database_.error(result);
  database_.recordFault(result, status_);
  return status_;
}

std::string_view SqliteStatement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  return {static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Value SqliteStatement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return real(column);
    default:
      return std::string(bytes(column));
  }
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::open(const std::string& path, Mode mode,
                                                                     const char* vfs) {
  const int access = mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  configureOnce();
  sqlite3* handle = nullptr;
  // Each connection is used by one thread at a time, so SQLite's own locking is not needed.
  const int result = sqlite3_open_v2(path.c_str(), &handle, access | SQLITE_OPEN_NOMUTEX, vfs);
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(path, mode, handle));
  if (result != SQLITE_OK) return database->error(result);
  sqlite3_extended_result_codes(handle, 1);
  database->setBusyTimeout(std::chrono::milliseconds(2'000));
  return database;
}

SqliteDatabase::~SqliteDatabase() {
  idle_.clear();
  sqlite3_close(handle_);
}

Statement SqliteDatabase::prepare(const char* sql) {
  if (auto found = idle_.find(sql); found != idle_.end() && found->second != nullptr) {
    return Statement(*found->second.release());
  }
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  // The statement deletes itself when it is released.
  return Statement(*new SqliteStatement(*this, statement, sql, result == SQLITE_OK ? absl::OkStatus() : error(result)));
}

Statement SqliteDatabase::prepareOnce(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  return Statement(
      *new SqliteStatement(*this, statement, nullptr, result == SQLITE_OK ? absl::OkStatus() : error(result)));
}

absl::Status SqliteDatabase::execute(const char* sql) {
  const int result = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (result == SQLITE_OK) return absl::OkStatus();
  absl::Status status = error(result);
  recordFault(result, status);
  return status;
}

void SqliteDatabase::rollback() {
  // SQLite rolls back by itself after some errors, such as a full disk; a second ROLLBACK would be an error.
  if (inTransaction()) (void)prepare("ROLLBACK").run();
}

absl::Status SqliteDatabase::error(int result) const {
  const char* detail = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
  switch (result) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
      return absl::AlreadyExistsError(detail);
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return absl::FailedPreconditionError("refers to an entity that is not stored; put that one first");
    default:
      break;
  }
  // Extended result codes carry the primary code in the low byte.
  for (const ErrorClass& known : kErrorClasses) {
    if (known.primary != (result & 0xff)) continue;
    return absl::Status(known.code, absl::StrCat(path_, ": ", detail, " (SQLite ", result, "); ", known.advice));
  }
  return absl::InternalError(absl::StrCat(path_, ": ", detail, " (SQLite ", result, ")"));
}

void SqliteDatabase::recordFault(int result, const absl::Status& status) {
  // The first fault is kept: later ones are often its consequences.
  if (!fault().ok()) return;
  for (const ErrorClass& known : kErrorClasses) {
    if (known.primary == (result & 0xff) && known.fault) setFault(status);
  }
}

}  // namespace tessera::storage
