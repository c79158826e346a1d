#include "storage/postgres/database.h"

#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

/// Settings of every connection. The planner has no statistics in a new database, and rows of the hot tables change too
/// fast for them, so the plans are generic and prefer indices; compiling a plan would cost more than running it.
constexpr const char* kSession =
    "SET jit = off; SET plan_cache_mode = force_generic_plan; SET client_min_messages = warning; "
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// Scans of whole tables would also make a serializable transaction conflict with every writer of the table. A server
/// that hangs within a transaction loses it, so that its locks do not stop the others.
constexpr const char* kWriterSession = "SET enable_seqscan = off; SET idle_in_transaction_session_timeout = '60s'";

constexpr const char* kMarkCommit =
    "INSERT INTO store_writers VALUES ($1, $2, now()) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seen = "
    "excluded.seen";

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
    {"57P", absl::StatusCode::kUnavailable, "the database is shutting down or starting"},
    {"25006", absl::StatusCode::kUnavailable, "the server is a standby; name all hosts in the connection string"},
    {"53300", absl::StatusCode::kUnavailable, "raise max_connections of the database"},
    {"53", absl::StatusCode::kResourceExhausted, "the database is out of disk space or memory"},
    {"54", absl::StatusCode::kResourceExhausted, "a value is too large"},
    {"22", absl::StatusCode::kInvalidArgument, "a value cannot be stored"},
    {"42501", absl::StatusCode::kPermissionDenied, "grant the role access to the tables of Tessera"},
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

PGconn* connectPostgres(const std::string& uri) {
  // Parameters before `dbname` are defaults, which the connection string may override. A peer that vanished is noticed
  // within 15 s.
  constexpr std::array<std::pair<const char*, const char*>, 7> kDefaults = {{
      {"fallback_application_name", "tesserad"},
      {"connect_timeout", "5"},
      {"target_session_attrs", "read-write"},
      {"keepalives_idle", "5"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "2"},
      {"tcp_user_timeout", "15000"},
  }};
  std::vector<const char*> names, values;
  for (const auto& [name, value] : kDefaults) {
    names.push_back(name);
    values.push_back(value);
  }
  for (const auto& [name, value] : {std::pair{"dbname", uri.c_str()}, {"client_encoding", "UTF8"}}) {
    names.push_back(name);
    values.push_back(value);
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectdbParams(names.data(), values.data(), /*expand_dbname=*/1);
}

absl::StatusOr<std::unique_ptr<PostgresDatabase>> PostgresDatabase::open(const std::string& uri, Mode mode) {
  std::unique_ptr<PostgresDatabase> database(new PostgresDatabase(uri, mode));
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
  PQenterPipelineMode(connection_);
  TESSERA_RETURN_IF_ERROR(execute(kSession));
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
  return Statement(*new PostgresStatement(*this, nullptr, toPostgres(sql)));
}

absl::Status PostgresDatabase::execute(const char* sql) { return answer(sql).status(); }

absl::StatusOr<std::string> PostgresDatabase::answer(const std::string& sql) {
  synchronize();
  PQexitPipelineMode(connection_);
  PGresult* const result = PQexec(connection_, sql.c_str());
  absl::StatusOr<std::string> answer;
  if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK) {
    answer = PQntuples(result) > 0 ? std::string(PQgetvalue(result, 0, 0)) : "";
  } else {
    answer = errorOf(result);
  }
  PQclear(result);
  PQenterPipelineMode(connection_);
  return answer;
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
    mark.add(writer_, true);
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
  // If the connection fails here, the answer is its error.
  if (PQsendFlushRequest(connection_) == 1) (void)PQflush(connection_);
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

void PostgresDatabase::receiveOne() {
  PGresult* const result = PQgetResult(connection_);
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
  while (PGresult* const more = PQgetResult(connection_)) PQclear(more);
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
