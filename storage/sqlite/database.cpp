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

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      cache_key_(other.cache_key_),
      bound_(other.bound_),
      status_(std::move(other.status_)) {}

Statement::~Statement() {
  if (!statement_) return;
  // A statement that is not reset keeps its read transaction open, and with it the end of the write-ahead log that a
  // checkpoint may reuse. Bindings are cleared because they can hold large blobs.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  if (cache_key_ != nullptr) {
    // Keyed by the address of the SQL text: `prepare` accepts constants only. If two copies of a statement were in use
    // at the same time, the second is discarded.
    if (sqlite3_stmt*& place = database_->idle_[cache_key_]; place == nullptr) {
      place = statement_;
      return;
    }
  }
  sqlite3_finalize(statement_);
}

void Statement::check(int result) {
  if (result != SQLITE_OK && status_.ok()) status_ = database_->error(result);
}

Statement& Statement::bind(int64_t value) {
  if (status_.ok()) check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  if (status_.ok()) check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  if (status_.ok()) {
    // A null pointer would be bound as NULL, which NOT NULL columns refuse.
    check(sqlite3_bind_text64(statement_, ++bound_, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                              SQLITE_UTF8));
  }
  return *this;
}
Statement& Statement::bind(const Value& value) {
  std::visit([this](const auto& alternative) { bind(alternative); }, value);
  return *this;
}
Statement& Statement::bindBlob(std::string_view bytes) {
  if (status_.ok()) {
    check(sqlite3_bind_blob64(statement_, ++bound_, bytes.data() ? bytes.data() : "", bytes.size(), SQLITE_TRANSIENT));
  }
  return *this;
}
Statement& Statement::bindNull() {
  if (status_.ok()) check(sqlite3_bind_null(statement_, ++bound_));
  return *this;
}

absl::StatusOr<bool> Statement::step() {
  if (!status_.ok()) return status_;
  const bool writes = sqlite3_stmt_readonly(statement_) == 0;
  if (writes) {
    status_ = database_->savepoints().beforeWrite();
    if (!status_.ok()) {
      database_->setFault(status_);
      return status_;
    }
  }
  const int result = sqlite3_step(statement_);
  if (writes) database_->savepoints().afterWrite(result == SQLITE_DONE);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  status_ = database_->error(result);
  database_->recordFault(result, status_);
  return status_;
}

absl::Status Statement::run() {
  absl::StatusOr<bool> row = step();
  return row.status();
}

std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  return {static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Value Statement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return real(column);
    default:
      return std::string(bytes(column));
  }
}

absl::StatusOr<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode, const char* vfs) {
  const int access = mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  configureOnce();
  sqlite3* handle = nullptr;
  // Each connection is used by one thread at a time, so SQLite's own locking is not needed.
  const int result = sqlite3_open_v2(path.c_str(), &handle, access | SQLITE_OPEN_NOMUTEX, vfs);
  std::unique_ptr<Database> database(new Database(path, handle));
  if (result != SQLITE_OK) return database->error(result);
  sqlite3_extended_result_codes(handle, 1);
  database->setBusyTimeout(std::chrono::milliseconds(2'000));
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Statement Database::prepare(const char* sql) {
  if (auto found = idle_.find(sql); found != idle_.end() && found->second != nullptr) {
    return {this, std::exchange(found->second, nullptr), sql, absl::OkStatus()};
  }
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return {this, statement, sql, result == SQLITE_OK ? absl::OkStatus() : error(result)};
}

Statement Database::prepareOnce(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  return {this, statement, nullptr, result == SQLITE_OK ? absl::OkStatus() : error(result)};
}

absl::Status Database::execute(const char* sql) {
  const int result = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (result == SQLITE_OK) return absl::OkStatus();
  absl::Status status = error(result);
  recordFault(result, status);
  return status;
}

void Database::rollback() {
  // SQLite rolls back by itself after some errors, such as a full disk; a second ROLLBACK would be an error.
  if (inTransaction()) (void)prepare("ROLLBACK").run();
}

absl::Status Database::error(int result) const {
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

void Database::recordFault(int result, const absl::Status& status) {
  // The first fault is kept: later ones are often its consequences.
  if (!fault_.ok()) return;
  for (const ErrorClass& known : kErrorClasses) {
    if (known.primary == (result & 0xff) && known.fault) fault_ = status;
  }
}

}  // namespace tessera::storage
