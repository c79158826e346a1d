#include "storage/postgres/database.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/postgres/connection.h"

namespace tessera::storage {
namespace {

/// Settings of every connection. The planner has no statistics in a new database, and rows of the hot tables change too
/// fast for them, so the plans are generic and prefer indices; compiling a plan would cost more than running it.
constexpr const char* kSession =
    "SET jit = off; SET plan_cache_mode = force_generic_plan; SET client_min_messages = warning; "
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// Scans of whole tables would also make a serializable transaction conflict with every writer of the table.
constexpr const char* kWriterSession = "SET enable_seqscan = off";
/// The server ends a statement whose client is gone. Not every system that PostgreSQL runs on can do that.
constexpr const char* kCheckClient = "SET client_connection_check_interval = '10s'";

/// A negative batch marks a closed connection, whose transactions must not commit any more: the division then fails.
constexpr const char* kMarkCommit =
    "INSERT INTO store_writers VALUES ($1, $2, now()) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch / "
    "(store_writers.batch >= 0)::int, seen = excluded.seen";

struct ErrorClass {
  std::string_view state;  ///< SQLSTATE, or its first two characters
  absl::StatusCode code;
  const char* advice;
};
// https://www.postgresql.org/docs/15/errcodes-appendix.html; the first match applies.
constexpr ErrorClass kErrorClasses[] = {
    {"23505", absl::StatusCode::kAlreadyExists, ""},
    {"23503", absl::StatusCode::kFailedPrecondition, "refers to an entity that is not stored; put that one first"},
    {"40", absl::StatusCode::kAborted, "another server changed the same rows; retry"},
    {"55P03", absl::StatusCode::kAborted, "a lock was not available; retry"},
    {"08", absl::StatusCode::kUnavailable, "the connection failed"},
    {"57014", absl::StatusCode::kUnavailable, "the statement was cancelled"},
    {"57P", absl::StatusCode::kUnavailable, "the database is shutting down or starting"},
    {"25006", absl::StatusCode::kUnavailable, "the server is a standby; name all hosts in the connection string"},
    {"53300", absl::StatusCode::kUnavailable, "raise max_connections of the database"},
    {"53", absl::StatusCode::kResourceExhausted, "the database is out of disk space or memory"},
    {"54", absl::StatusCode::kInvalidArgument, "a value is too large"},
    {"22", absl::StatusCode::kInvalidArgument, "a value cannot be stored"},
    {"42501", absl::StatusCode::kInternal, "grant the role access to the tables of Tessera"},
    {"XX001", absl::StatusCode::kDataLoss, "the database is damaged; restore it from a backup"},
    {"XX002", absl::StatusCode::kDataLoss, "an index of the database is damaged; rebuild it"},
};

bool isViolation(const absl::Status& status) {
  return absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status);
}

/// Without the line break that libpq appends.
std::string lineOf(const char* message) {
  std::string line = message == nullptr ? "" : message;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresDatabase>> PostgresDatabase::open(const std::string& uri, Mode mode,
                                                                         const PostgresLimits& limits) {
  std::unique_ptr<PostgresDatabase> database(new PostgresDatabase(uri, mode, limits));
  TESSERA_RETURN_IF_ERROR(database->reconnect());
  return database;
}

PostgresDatabase::~PostgresDatabase() {
  loseConnection();
  PQfinish(connection_);
}

absl::Status PostgresDatabase::reconnect() {
  loseConnection();
  PQfinish(connection_);
  for (auto& [sql, text] : texts_) text->prepared.reset();
  connection_ = connectPostgres(uri_);
  lost_ = false;
  if (isLost()) return absl::UnavailableError(lineOf(PQerrorMessage(connection_)));
  ++connections_;
  PQenterPipelineMode(connection_);
  TESSERA_RETURN_IF_ERROR(execute(kSession));
  // A server that hangs within a transaction loses it, so that its locks and its snapshot do not stop the others.
  const std::string limits = absl::StrCat("SET lock_timeout = ", limits_.lock.count(),
                                          "; SET idle_in_transaction_session_timeout = ", limits_.idle.count());
  TESSERA_RETURN_IF_ERROR(execute(limits.c_str()));
  (void)execute(kCheckClient);
  return mode_ == Mode::kWrites ? execute(kWriterSession) : absl::OkStatus();
}

std::string PostgresDatabase::name() const {
  const char* const host = connection_ == nullptr ? nullptr : PQhost(connection_);
  const char* const database = connection_ == nullptr ? nullptr : PQdb(connection_);
  return absl::StrCat("database ", database == nullptr ? "" : database, " on ", host == nullptr ? "" : host);
}

PostgresText& PostgresDatabase::textOf(const char* sql) {
  std::unique_ptr<PostgresText>& text = texts_[sql];
  if (text == nullptr) {
    text = std::make_unique<PostgresText>();
    text->text = toPostgres(sql);
    text->name = absl::StrCat("statement_", texts_.size());
  }
  return *text;
}

Statement PostgresDatabase::prepare(const char* sql) {
  // The statement deletes itself when it is released.
  return Statement(*new PostgresStatement(*this, &textOf(sql), {}));
}

Statement PostgresDatabase::prepareOnce(std::string_view sql) {
  PostgresStatementText text = toPostgres(sql);
  text.streamed = text.streamed || text.pages;
  return Statement(*new PostgresStatement(*this, nullptr, std::move(text)));
}

absl::Status PostgresDatabase::execute(const char* sql) { return answer(sql).status(); }

absl::StatusOr<std::string> PostgresDatabase::answer(const std::string& sql, std::chrono::milliseconds timeout) {
  synchronize();
  if (isLost()) return absl::UnavailableError("the connection to the database is lost");
  PQexitPipelineMode(connection_);
  PGresult* const result = executeWithin(connection_, sql.c_str(), timeout.count() == 0 ? limits_.answer : timeout);
  absl::StatusOr<std::string> answer;
  if (result == nullptr) {
    loseConnection();
    return silent();
  }
  if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK) {
    answer = PQntuples(result) > 0 ? std::string(PQgetvalue(result, 0, 0)) : "";
  } else {
    answer = errorOf(result);
  }
  PQclear(result);
  PQenterPipelineMode(connection_);
  return answer;
}

absl::Status PostgresDatabase::silent() const {
  return absl::UnavailableError(absl::StrCat(name(), " does not answer"));
}

absl::StatusOr<bool> PostgresDatabase::closeUncertainBatch() {
  // The statement waits for a session that was lost within its COMMIT, if the server has not noticed its end yet. A
  // session that has not come that far can no longer commit: its own mark fails on the row that is written here.
  TESSERA_ASSIGN_OR_RETURN(
      const std::string batch,
      answer(absl::StrCat("INSERT INTO store_writers VALUES ('", uncertain_mark_,
                          "', -1, now()) ON CONFLICT (id) DO UPDATE SET batch = CASE WHEN store_writers.batch < 0 THEN "
                          "store_writers.batch ELSE -1 - store_writers.batch END, seen = excluded.seen "
                          "RETURNING -1 - batch")));
  return batch == absl::StrCat(std::exchange(uncertain_batch_, 0));
}

absl::Status PostgresDatabase::begin() {
  // Of an earlier batch, whose callers got an error: what became of it says nothing of this one.
  uncertain_batch_ = 0;
  if (isLost()) {
    setFault(absl::UnavailableError("the connection to the database is lost"));
    return fault();
  }
  wrote_ = doubtful_ = has_answers_ = false;
  last_write_.reset();
  (void)send(
      mode_ == Mode::kWrites ? "BEGIN ISOLATION LEVEL SERIALIZABLE" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
      {});
  open_ = true;
  return absl::OkStatus();
}

absl::Status PostgresDatabase::commit() {
  if (rehearsal_ && !careful_) setFault(absl::AbortedError("refused, so that the bodies run again"));
  if (doubtful_) setFault(absl::AbortedError("a constraint was violated, perhaps by another server's change"));
  if (!fault().ok()) return fault();
  if (wrote_ && !writer_.empty()) {
    PostgresParameters mark;
    uncertain_mark_ = absl::StrCat(writer_, ".", connections_);
    mark.add(uncertain_mark_, true);
    mark.add(absl::StrCat(++batch_), false);
    (void)send(kMarkCommit, mark);
    uncertain_batch_ = batch_;
  }
  const PostgresReplyPtr reply = send("COMMIT", {});
  synchronize();
  open_ = !reply->status.ok();  // skipped after an error, COMMIT has not ended the transaction
  if (!isLost()) uncertain_batch_ = 0;
  return fault().ok() ? reply->status : fault();
}

void PostgresDatabase::rollback() {
  if (!open_) return;
  open_ = false;
  if (isLost()) return;
  // After an error, the server skips statements until the next synchronization.
  if (!fault().ok()) synchronize();
  (void)send("ROLLBACK", {});
  synchronize();
}

int64_t PostgresDatabase::changes() {
  if (last_write_ == nullptr || !await(last_write_).ok()) return 0;
  int64_t rows = 0;
  (void)absl::SimpleAtoi(PQcmdTuples(last_write_->result), &rows);
  return rows;
}

PostgresReplyPtr PostgresDatabase::send(std::string_view sql, const PostgresParameters& parameters) {
  const PostgresParameters::Arrays arrays = parameters.arrays();
  return expect(PQsendQueryParams(connection_, std::string(sql).c_str(), parameters.size(), nullptr,
                                  arrays.values.data(), arrays.lengths.data(), arrays.formats.data(), 1) == 1);
}

PostgresReplyPtr PostgresDatabase::sendPrepared(PostgresText& text, const PostgresParameters& parameters) {
  // A failed pipeline may have skipped the preparation.
  if (text.prepared == nullptr || (text.prepared->arrived && !text.prepared->status.ok())) {
    const std::string sql = text.text.streamed ? absl::StrCat(text.text.sql, " LIMIT ", kHeadRows) : text.text.sql;
    text.prepared = expect(PQsendPrepare(connection_, text.name.c_str(), sql.c_str(), 0, nullptr) == 1);
  }
  const PostgresParameters::Arrays arrays = parameters.arrays();
  return expect(PQsendQueryPrepared(connection_, text.name.c_str(), parameters.size(), arrays.values.data(),
                                    arrays.lengths.data(), arrays.formats.data(), 1) == 1);
}

PostgresReplyPtr PostgresDatabase::expect(bool sent) {
  auto reply = std::make_shared<PostgresReply>();
  if (sent) {
    expected_.push_back(reply);
  } else {
    reply->arrived = true;
    reply->status = absl::UnavailableError(lineOf(PQerrorMessage(connection_)));
    setFault(reply->status);
  }
  return reply;
}

absl::Status PostgresDatabase::await(const PostgresReplyPtr& reply) {
  if (reply->arrived) return reply->status;
  ++round_trips_;
  // If the connection fails here, the answer is its error. A synchronization, because the server limits the time that a
  // transaction is idle only after one.
  if (PQpipelineSync(connection_) == 1) expected_.push_back(nullptr);
  while (!reply->arrived) receiveOne();
  has_answers_ = has_answers_ || reply->status.ok();
  return reply->status;
}

void PostgresDatabase::synchronize() {
  if (isLost()) return loseConnection();
  ++round_trips_;
  if (PQpipelineSync(connection_) != 1) return loseConnection();
  expected_.push_back(nullptr);
  while (!expected_.empty()) receiveOne();
}

PGresult* PostgresDatabase::nextResult() {
  // A read may take longer: it waits for nobody, and its statement may be a statistic of all records.
  if (awaitAnswer(connection_, mode_ == Mode::kReads ? 4 * limits_.answer : limits_.answer)) {
    return PQgetResult(connection_);
  }
  setFault(silent());
  loseConnection();
  return nullptr;
}

void PostgresDatabase::receiveOne() {
  PGresult* const result = nextResult();
  if (result == nullptr) return loseConnection();
  const PostgresReplyPtr reply = expected_.front();
  expected_.pop_front();
  const ExecStatusType kind = PQresultStatus(result);
  if (kind == PGRES_PIPELINE_SYNC) return PQclear(result);
  if (reply == nullptr) {
    // The answer to the synchronization is missing.
    PQclear(result);
    return loseConnection();
  }
  reply->result = result;
  reply->arrived = true;
  if (kind == PGRES_PIPELINE_ABORTED) {
    reply->status = absl::AbortedError("skipped after an error of an earlier statement");
  } else if (kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK) {
    reply->status = errorOf(result);
    if (!isViolation(reply->status)) {
      setFault(reply->status);
    } else if (!reply->guarded) {
      setFault(absl::AbortedError(reply->status.message()));
    }
  }
  // The end of this statement's results.
  while (PGresult* const more = nextResult()) PQclear(more);
}

void PostgresDatabase::loseConnection() {
  for (const PostgresReplyPtr& reply : expected_) {
    if (reply == nullptr) continue;
    reply->arrived = true;
    reply->status = absl::UnavailableError("the connection to the database is lost");
    setFault(reply->status);
  }
  expected_.clear();
  lost_ = true;
}

absl::Status PostgresDatabase::errorOf(const PGresult* result) {
  const char* const field = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (field == nullptr) {
    lost_ = true;
    return absl::UnavailableError(
        absl::StrCat(name(), ": ", lineOf(result == nullptr ? "" : PQresultErrorMessage(result))));
  }
  const std::string state = field;
  const char* const primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string message = primary == nullptr ? "" : primary;
  for (const ErrorClass& known : kErrorClasses) {
    if (!state.starts_with(known.state)) continue;
    if (known.code == absl::StatusCode::kUnavailable) lost_ = true;
    if (known.code == absl::StatusCode::kFailedPrecondition) return absl::FailedPreconditionError(known.advice);
    return absl::Status(known.code, absl::StrCat(name(), ": ", message, " (SQLSTATE ", state, ")",
                                                 *known.advice == '\0' ? "" : "; ", known.advice));
  }
  return absl::InternalError(absl::StrCat(name(), ": ", message, " (SQLSTATE ", state, ")"));
}

}  // namespace tessera::storage
