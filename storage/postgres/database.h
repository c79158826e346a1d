#pragma once

#include <postgresql/libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/postgres/dialect.h"
#include "storage/postgres/limits.h"
#include "storage/sql/database.h"
#include "storage/value.h"

namespace tessera::storage {

class PostgresDatabase;

/// Parameters of a statement, in the order of their numbers.
class PostgresParameters {
 public:
  void add(std::string value, bool binary, bool null = false) { values_.push_back({std::move(value), binary, null}); }
  void clear() { values_.clear(); }
  struct Arrays {
    std::vector<const char*> values;
    std::vector<int> lengths, formats;
  };
  Arrays arrays() const;
  int size() const { return static_cast<int>(values_.size()); }

 private:
  struct Parameter {
    std::string value;
    bool binary = false, null = false;
  };
  std::vector<Parameter> values_;
};

/// The answer to one statement that was sent. Shared by its statement and the connection's list of expected answers.
struct PostgresReply {
  PGresult* result = nullptr;
  bool arrived = false;
  bool guarded = false;  ///< a violation is undone by a savepoint, and is no fault
  absl::Status status;
  PostgresReply() = default;
  PostgresReply(const PostgresReply&) = delete;
  PostgresReply& operator=(const PostgresReply&) = delete;
  ~PostgresReply() { PQclear(result); }
};
using PostgresReplyPtr = std::shared_ptr<PostgresReply>;

/// A statement text as a connection knows it.
struct PostgresText {
  PostgresStatementText text;
  std::string name;           ///< name of the prepared statement; of a streamed one, that of its first rows
  PostgresReplyPtr prepared;  ///< answer to its preparation on this connection; null: not prepared
};

/// One use of a statement. Rows of a streamed statement are fetched in parts: the first ones by a prepared statement,
/// since most callers need no more, and further ones by a cursor.
class PostgresStatement final : public EngineStatement {
 public:
  /// `cached` belongs to the connection; null: `once` is the statement.
  PostgresStatement(PostgresDatabase& database, PostgresText* cached, PostgresStatementText once)
      : database_(database), cached_(cached), once_(std::move(once)) {}

  void bindInteger(int64_t value) override;
  void bindReal(double value) override;
  void bindText(std::string_view text) override;
  void bindBlob(std::string_view bytes) override;
  void bindNull() override { parameters_.add({}, false, true); }
  void start() override;
  absl::StatusOr<bool> step() override;
  absl::Status run() override;
  int64_t integer(int column) const override;
  double real(int column) const override;
  std::string_view bytes(int column) const override;
  Value value(int column) const override;
  bool isNull(int column) const override { return PQgetisnull(reply_->result, row_, column) != 0; }
  void release() override;

 private:
  const PostgresStatementText& text() const { return cached_ != nullptr ? cached_->text : once_; }
  absl::Status fetch();
  absl::Status write();

  PostgresDatabase& database_;
  PostgresText* const cached_;
  const PostgresStatementText once_;
  PostgresParameters parameters_;
  PostgresReplyPtr reply_;
  int row_ = -1;
  int fetched_ = 0;     ///< rows of earlier parts of a streamed statement
  int part_ = 0;        ///< requested number of rows of the present part
  std::string cursor_;  ///< name of the cursor; empty: none yet
  absl::Status status_;
};

/// One connection to a PostgreSQL server. Statements are prepared once, and sent in pipeline mode: a statement that
/// writes is sent without waiting for its answer, which arrives with that of the next read or of the commit.
///
/// A constraint violation may come from a row that another server committed after this transaction's snapshot. So the
/// transaction then runs again, carefully: each write is awaited within a savepoint, and its violation is a result of
/// the statement. Statements whose violation is to be expected are always awaited within a savepoint.
class PostgresDatabase final : public Database {
 public:
  enum class Mode { kReads, kWrites };
  /// Rows of a streamed statement that its prepared form returns.
  static constexpr int kHeadRows = 8;
  /// `uri` is a connection string of libpq. UNAVAILABLE if no server accepts the connection.
  static absl::StatusOr<std::unique_ptr<PostgresDatabase>> open(const std::string& uri, Mode mode,
                                                                const PostgresLimits& limits = {});
  ~PostgresDatabase() override;

  Statement prepare(const char* sql) override;
  Statement prepareOnce(std::string_view sql) override;
  /// Outside of transactions only.
  absl::Status execute(const char* sql) override;
  absl::Status begin() override;
  absl::Status commit() override;
  void rollback() override;
  bool inTransaction() const override { return open_ && fault().ok(); }
  void announceLastWrite() override {}
  int64_t changes() override;
  bool hasOtherWriters() const override { return true; }

  /// Runs statements outside of transactions. Returns the first value of the last one's first row as text; empty: no
  /// row. UNAVAILABLE if the answer takes longer than `timeout` (0: the limit of the connection).
  absl::StatusOr<std::string> answer(const std::string& sql,
                                     std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// Opens a new connection in place of the present one.
  absl::Status reconnect();
  /// Whether the transaction has received an answer.
  bool hasAnswers() const { return has_answers_; }
  /// Whether the connection is lost, or the server is about to close it.
  bool isLost() const { return lost_ || connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD; }
  /// The next transaction reports constraint violations as results of statements.
  void setCareful(bool careful) { careful_ = careful; }
  /// Whether each transaction is refused at its first COMMIT, as if another server had changed the same rows.
  void setRehearsal(bool rehearsal) { rehearsal_ = rehearsal; }
  /// Each COMMIT of a transaction that wrote updates a row of `store_writers` with the number of the batch. The row's
  /// id is "WRITER.N" for the N-th connection of this object.
  void setCommitMark(std::string writer) { writer_ = std::move(writer); }
  /// Number of the batch whose COMMIT was sent without an answer; 0: none.
  int64_t uncertainBatch() const { return uncertain_batch_; }
  /// Whether that batch was committed. Afterwards its connection, which may be alive at the server, commits nothing.
  absl::StatusOr<bool> closeUncertainBatch();
  /// "database NAME on HOST", for messages.
  std::string name() const;
  /// Statements and round trips since the connection was opened, for tests and figures.
  int64_t roundTrips() const { return round_trips_; }

 private:
  friend class PostgresStatement;
  PostgresDatabase(std::string uri, Mode mode, const PostgresLimits& limits)
      : uri_(std::move(uri)), mode_(mode), limits_(limits) {}

  PostgresText& textOf(const char* sql);
  /// Sends a statement once; the answer is expected after all earlier ones.
  PostgresReplyPtr send(std::string_view sql, const PostgresParameters& parameters);
  PostgresReplyPtr sendPrepared(PostgresText& text, const PostgresParameters& parameters);
  PostgresReplyPtr expect(bool sent);
  /// Ends the pipeline; all its answers are received.
  void synchronize();
  void loseConnection();
  /// Waits until the answer has arrived, and returns its error.
  absl::Status await(const PostgresReplyPtr& reply);
  /// PQgetResult() that waits only for the limited time; then the connection is lost.
  PGresult* nextResult();
  absl::Status silent() const;
  void receiveOne();
  absl::Status errorOf(const PGresult* result);
  std::string nextCursor() { return "cursor_" + std::to_string(++cursors_); }

  const std::string uri_;
  const Mode mode_;
  const PostgresLimits limits_;
  PGconn* connection_ = nullptr;
  bool open_ = false;   ///< BEGIN was sent, and neither COMMIT nor ROLLBACK
  bool wrote_ = false;  ///< since BEGIN
  bool lost_ = false;
  bool has_answers_ = false;
  bool careful_ = false;
  bool doubtful_ = false;  ///< a violation occurred that may be that of another server
  bool rehearsal_ = false;
  std::string writer_;
  int64_t batch_ = 0;
  int64_t uncertain_batch_ = 0;
  std::string uncertain_mark_;  ///< the row of that batch
  int64_t connections_ = 0;     ///< number of the present one
  int64_t cursors_ = 0;
  int64_t round_trips_ = 0;
  std::deque<PostgresReplyPtr> expected_;  ///< in the order of sending; null: a synchronization
  PostgresReplyPtr last_write_;
  /// By the address of the SQL literal.
  std::unordered_map<const char*, std::unique_ptr<PostgresText>> texts_;
};

}  // namespace tessera::storage
