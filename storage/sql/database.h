#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sql/savepoints.h"
#include "storage/value.h"

/// The interface between the statements that both SQL stores share and the engines that run them: storage/sqlite/ and
/// storage/postgres/.
namespace tessera::storage {

/// A prepared statement of an engine. Errors of preparing and binding are deferred to step().
class EngineStatement {
 public:
  virtual ~EngineStatement() = default;
  virtual void bindInteger(int64_t value) = 0;
  virtual void bindReal(double value) = 0;
  virtual void bindText(std::string_view text) = 0;
  virtual void bindBlob(std::string_view bytes) = 0;
  virtual void bindNull() = 0;
  virtual void start() {}
  virtual absl::StatusOr<bool> step() = 0;
  virtual absl::Status run() = 0;
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string_view bytes(int column) const = 0;
  virtual Value value(int column) const = 0;
  virtual bool isNull(int column) const = 0;
  /// Ends one use. The engine keeps the statement for the next use, or deletes it.
  virtual void release() = 0;
};

/// One use of a prepared statement, and its parameters. Errors of preparing and binding are deferred to step() or
/// run(), so that calls can be chained. Must not outlive its connection.
class Statement {
 public:
  explicit Statement(EngineStatement& statement) : statement_(&statement) {}
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement() {
    if (statement_ != nullptr) statement_->release();
  }

  /// Binds the next parameter, from left to right.
  Statement& bind(int64_t value) {
    statement_->bindInteger(value);
    return *this;
  }
  Statement& bind(int value) { return bind(static_cast<int64_t>(value)); }
  Statement& bind(double value) {
    statement_->bindReal(value);
    return *this;
  }
  Statement& bind(std::string_view text) {
    statement_->bindText(text);
    return *this;
  }
  Statement& bind(const std::string& text) { return bind(std::string_view(text)); }
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(const Value& value) {
    std::visit([this](const auto& alternative) { bind(alternative); }, value);
    return *this;
  }
  Statement& bindBlob(std::string_view bytes) {
    statement_->bindBlob(bytes);
    return *this;
  }
  Statement& bindNull() {
    statement_->bindNull();
    return *this;
  }

  /// Sends the statement to a remote engine without waiting for its rows, so that several statements share one round
  /// trip. Optional; step() starts a statement that is not started.
  void start() { statement_->start(); }
  /// Advances to the next row; false if there is none.
  absl::StatusOr<bool> step() { return statement_->step(); }
  /// Executes a statement that returns no rows. A remote engine may report its error later, as the connection's fault.
  absl::Status run() { return statement_->run(); }

  /// Columns of the current row, from 0; NULL reads as 0 or empty. Views are valid until the next step.
  int64_t integer(int column) const { return statement_->integer(column); }
  double real(int column) const { return statement_->real(column); }
  std::string_view bytes(int column) const { return statement_->bytes(column); }
  Value value(int column) const { return statement_->value(column); }
  bool isNull(int column) const { return statement_->isNull(column); }

 private:
  EngineStatement* statement_;
};

/// One connection to a database. Not thread-safe; may move between threads.
class Database {
 public:
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// `sql` must be a string literal in SQLite's dialect: statements are cached by its address, and an engine with
  /// another dialect translates them.
  virtual Statement prepare(const char* sql) = 0;
  /// Prepares a statement created at run time, without caching it.
  virtual Statement prepareOnce(std::string_view sql) = 0;
  /// Runs one or more statements that take no parameters.
  virtual absl::Status execute(const char* sql) = 0;

  /// Begins a transaction that writes, or one that only reads, according to the kind of connection.
  virtual absl::Status begin() = 0;
  virtual absl::Status commit() = 0;
  /// Rolls back the open transaction, if any.
  virtual void rollback() = 0;
  virtual bool inTransaction() const = 0;
  /// Nested parts of the open transaction that can be rolled back alone.
  Savepoints& savepoints() { return savepoints_; }
  /// Savepoints::announceLastWrite() in an engine that undoes a failed statement by itself; otherwise no effect.
  virtual void announceLastWrite() { savepoints_.announceLastWrite(); }
  /// Rows changed by the last INSERT, UPDATE or DELETE.
  virtual int64_t changes() = 0;
  /// Whether other programs may write the database at the same time, so that a selected row must be locked before it is
  /// claimed.
  virtual bool hasOtherWriters() const { return false; }

  /// The first error since clearFault() that invalidates the open transaction: a failure of the disk, the file, memory
  /// or the connection, as opposed to a constraint violation or a wrong query.
  const absl::Status& fault() const { return fault_; }
  void setFault(const absl::Status& status) {
    if (fault_.ok()) fault_ = status;
  }
  void clearFault() { fault_ = absl::OkStatus(); }

 protected:
  Database() = default;

 private:
  absl::Status fault_;
  Savepoints savepoints_{*this};
};

}  // namespace tessera::storage
