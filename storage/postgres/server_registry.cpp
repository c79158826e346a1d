#include "storage/server_registry.h"

#include <google/protobuf/util/time_util.h>
#include <postgresql/libpq-fe.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/support/status_macros.h"
#include "storage/postgres/connection.h"

namespace tessera::storage {
namespace {

using google::protobuf::util::TimeUtil;

/// $1 id, $2 home, $3 instance, $4 body, $5 lifetime in seconds. No row: a live server of another home has the id.
constexpr const char* kRenew =
    "INSERT INTO servers AS s VALUES ($1, $2, $3, clock_timestamp(), $4) ON CONFLICT (id) DO UPDATE SET home = "
    "excluded.home, instance = excluded.instance, seen = excluded.seen, body = excluded.body WHERE s.home = "
    "excluded.home OR s.seen < clock_timestamp() - make_interval(secs => $5::float8) RETURNING id";
constexpr const char* kAddDuty = "INSERT INTO server_duties (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
/// $1 id, $2 instance, $3 lifetime, $4 names. Of two servers that update an expired row at once, the second one waits
/// for the first and then finds the row renewed.
constexpr const char* kTakeDuties =
    "UPDATE server_duties SET holder = $1, instance = $2, expires = clock_timestamp() + make_interval(secs => "
    "$3::float8), token = token + CASE WHEN instance = $2 THEN 0 ELSE 1 END WHERE name = ANY($4::text[]) AND (holder = "
    "$1 OR expires < clock_timestamp()) RETURNING name, token";
constexpr const char* kDone =
    "SELECT name, (extract(epoch FROM done) * 1000000)::bigint FROM server_duties WHERE done IS NOT NULL";
constexpr const char* kOthers =
    "SELECT id FROM servers WHERE id <> $1 AND seen > clock_timestamp() - make_interval(secs => $2::float8)";
constexpr const char* kForgetSilent = "DELETE FROM servers WHERE seen < clock_timestamp() - interval '1 day'";
constexpr const char* kCountCalls =
    "INSERT INTO server_calls VALUES ($1, $2, $3::bigint) ON CONFLICT (server, project) DO UPDATE SET calls = "
    "excluded.calls";
constexpr const char* kCallsElsewhere =
    "SELECT project, sum(calls)::bigint FROM server_calls WHERE server <> $1 GROUP BY project";
constexpr const char* kTokenChanges = "SELECT changes FROM change_counts WHERE name = 'tokens'";
constexpr const char* kEndDuty =
    "UPDATE server_duties SET expires = '-infinity', done = CASE WHEN $3 = '1' THEN clock_timestamp() ELSE done END "
    "WHERE name = $1 AND instance = $2";
constexpr const char* kNoteDone = "UPDATE server_duties SET done = clock_timestamp() WHERE name = $1 AND instance = $2";
constexpr const char* kEndDuties = "UPDATE server_duties SET expires = '-infinity' WHERE instance = $1";
constexpr const char* kRemove = "DELETE FROM servers WHERE id = $1 AND instance = $2";
/// $1 lifetime in seconds.
constexpr const char* kList =
    "SELECT s.body, (extract(epoch FROM s.seen) * 1000000)::bigint, s.seen > clock_timestamp() - make_interval(secs => "
    "$1::float8), "
    "coalesce((SELECT string_agg(d.name, ' ' ORDER BY d.name) FROM server_duties d WHERE d.instance = s.instance AND "
    "d.expires > clock_timestamp()), '') FROM servers s ORDER BY s.id";
constexpr const char* kValue = "SELECT value FROM server_values WHERE name = $1";
constexpr const char* kSetValue =
    "INSERT INTO server_values VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
constexpr const char* kInsertValue = "INSERT INTO server_values VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
constexpr const char* kClock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
constexpr const char* kReadTokenKey = "SELECT value FROM settings WHERE name = 'token_key'";

/// Longest wait for the database: a heartbeat that takes longer comes too late.
constexpr std::chrono::seconds kHeartbeatAnswer(4);

/// Rows of one statement, as text.
class Rows {
 public:
  explicit Rows(PGresult* result) : result_(result, &PQclear) {}
  int count() const { return PQntuples(result_.get()); }
  std::string text(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column), static_cast<size_t>(PQgetlength(result_.get(), row, column))};
  }
  int64_t number(int row, int column) const {
    int64_t number = 0;
    return absl::SimpleAtoi(text(row, column), &number) ? number : 0;
  }
  std::string bytes(int row, int column) const {
    size_t size = 0;
    unsigned char* const plain =
        PQunescapeBytea(reinterpret_cast<const unsigned char*>(PQgetvalue(result_.get(), row, column)), &size);
    std::string bytes(reinterpret_cast<const char*>(plain), size);
    PQfreemem(plain);
    return bytes;
  }

 private:
  std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

/// A parameter; bytes are sent in the binary form.
struct Parameter {
  std::string value;
  bool bytes = false;
};

std::string secondsOf(std::chrono::milliseconds time) {
  return absl::StrCat(std::chrono::duration<double>(time).count());
}

/// "{a,b}"; names of duties need no quotes.
std::string arrayOf(const std::set<std::string>& names) { return absl::StrCat("{", absl::StrJoin(names, ","), "}"); }

class PostgresServerRegistry : public ServerRegistry {
 public:
  explicit PostgresServerRegistry(std::string uri) : uri_(std::move(uri)) {}
  ~PostgresServerRegistry() override { PQfinish(connection_); }

  absl::Status open() {
    TESSERA_ASSIGN_OR_RETURN(const Rows key, run(kReadTokenKey));
    if (key.count() == 0) return absl::DataLossError("the setting token_key is missing; restore a backup");
    token_key_ = key.bytes(0, 0);
    return absl::OkStatus();
  }

  bool isShared() const override { return true; }

  absl::StatusOr<ServerNews> beat(const ServerIdentity& self, const ServerReport& report) override {
    const std::string& id = self.server.id();
    const std::string lifetime = secondsOf(kLifetime);
    v1::Server row = self.server;
    row.set_state(self.draining ? v1::Server::DRAINING : v1::Server::LIVE);
    TESSERA_ASSIGN_OR_RETURN(
        const Rows renewed,
        run(kRenew, {{id}, {self.home}, {self.instance}, {row.SerializeAsString(), true}, {lifetime}}));
    if (renewed.count() == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("another server named ", id, " is live on this database; start with another --server-name"));
    }
    for (const std::string& duty : report.wanted) {
      if (known_duties_.insert(duty).second) TESSERA_RETURN_IF_ERROR(run(kAddDuty, {{duty}}).status());
    }
    for (const auto& [project, calls] : report.calls) {
      TESSERA_RETURN_IF_ERROR(run(kCountCalls, {{id}, {project}, {absl::StrCat(calls)}}).status());
    }
    ServerNews news;
    TESSERA_ASSIGN_OR_RETURN(const Rows held,
                             run(kTakeDuties, {{id}, {self.instance}, {lifetime}, {arrayOf(report.wanted)}}));
    for (int i = 0; i < held.count(); ++i) news.held[held.text(i, 0)] = held.number(i, 1);
    TESSERA_ASSIGN_OR_RETURN(const Rows done, run(kDone));
    for (int i = 0; i < done.count(); ++i) news.done_us[done.text(i, 0)] = done.number(i, 1);
    TESSERA_RETURN_IF_ERROR(run(kForgetSilent).status());
    TESSERA_ASSIGN_OR_RETURN(const Rows others, run(kOthers, {{id}, {lifetime}}));
    for (int i = 0; i < others.count(); ++i) news.others.insert(others.text(i, 0));
    TESSERA_ASSIGN_OR_RETURN(const Rows calls, run(kCallsElsewhere, {{id}}));
    for (int i = 0; i < calls.count(); ++i) news.calls_elsewhere[calls.text(i, 0)] = calls.number(i, 1);
    TESSERA_ASSIGN_OR_RETURN(const Rows changes, run(kTokenChanges));
    if (changes.count() > 0) news.token_changes = changes.number(0, 0);
    return news;
  }

  absl::Status endDuty(const ServerIdentity& self, const std::string& duty, bool done) override {
    return run(kEndDuty, {{duty}, {self.instance}, {done ? "1" : "0"}}).status();
  }
  absl::Status noteDone(const ServerIdentity& self, const std::string& duty) override {
    return run(kNoteDone, {{duty}, {self.instance}}).status();
  }
  absl::Status leave(const ServerIdentity& self) override {
    TESSERA_RETURN_IF_ERROR(run(kEndDuties, {{self.instance}}).status());
    return run(kRemove, {{self.server.id()}, {self.instance}}).status();
  }

  absl::StatusOr<Page<v1::Server>> list(const ListQuery& query) override {
    TESSERA_ASSIGN_OR_RETURN(const Rows rows, run(kList, {{secondsOf(kLifetime)}}));
    std::vector<v1::Server> servers;
    for (int i = 0; i < rows.count(); ++i) {
      v1::Server server;
      if (!server.ParseFromString(rows.bytes(i, 0))) continue;  // of a later release that changed the form
      *server.mutable_heartbeat_time() = TimeUtil::MicrosecondsToTimestamp(rows.number(i, 1));
      if (rows.text(i, 2) != "t") server.set_state(v1::Server::SILENT);
      const std::vector<std::string> duties = absl::StrSplit(rows.text(i, 3), ' ', absl::SkipEmpty());
      server.mutable_duties()->Assign(duties.begin(), duties.end());
      servers.push_back(std::move(server));
    }
    return pageOfServers(servers, token_key_, query);
  }

  absl::StatusOr<std::string> value(const std::string& name) override {
    TESSERA_ASSIGN_OR_RETURN(const Rows rows, run(kValue, {{name}}));
    if (rows.count() == 0) return absl::NotFoundError(absl::StrCat("there is no value ", name));
    return rows.bytes(0, 0);
  }
  absl::Status setValue(const std::string& name, std::string_view value) override {
    return run(kSetValue, {{name}, {std::string(value), true}}).status();
  }
  absl::StatusOr<std::string> valueOrInsert(const std::string& name, std::string_view value) override {
    TESSERA_RETURN_IF_ERROR(run(kInsertValue, {{name}, {std::string(value), true}}).status());
    return this->value(name);
  }

  absl::StatusOr<int64_t> clockOffsetMicros() override {
    using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
    // The first statement of a connection takes longer, which would make the middle of the round trip less precise.
    TESSERA_RETURN_IF_ERROR(run(kClock).status());
    const auto before = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
    TESSERA_ASSIGN_OR_RETURN(const Rows clock, run(kClock));
    const auto after = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
    return clock.number(0, 0) - (before + (after - before) / 2);
  }

 private:
  /// Runs one statement in a transaction of its own; connects first if there is no connection, and once more if it is
  /// lost. Every statement may be repeated.
  absl::StatusOr<Rows> run(const char* sql, const std::vector<Parameter>& parameters = {}) {
    const std::lock_guard lock(mutex_);
    std::vector<const char*> values;
    std::vector<int> lengths, formats;
    for (const Parameter& parameter : parameters) {
      values.push_back(parameter.value.c_str());
      lengths.push_back(static_cast<int>(parameter.value.size()));
      formats.push_back(parameter.bytes ? 1 : 0);
    }
    for (int attempt = 0;; ++attempt) {
      if (connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD) {
        PQfinish(connection_);
        connection_ = connectPostgres(uri_);
      }
      const bool sent = PQsendQueryParams(connection_, sql, static_cast<int>(values.size()), nullptr, values.data(),
                                          lengths.data(), formats.data(), 0) == 1;
      PGresult* const result = sent ? lastResult() : PQmakeEmptyPGresult(connection_, PGRES_FATAL_ERROR);
      const ExecStatusType status = PQresultStatus(result);
      if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return Rows(result);
      const bool is_silent = result == nullptr;
      const std::string error = is_silent ? "it does not answer" : PQerrorMessage(connection_);
      PQclear(result);
      if (is_silent) PQfinish(std::exchange(connection_, nullptr));
      if (!is_silent && PQstatus(connection_) == CONNECTION_BAD && attempt == 0) continue;
      return absl::UnavailableError(absl::StrCat("the database: ", error));
    }
  }

  /// The last result of the statement that was sent; null if the database does not answer in time.
  PGresult* lastResult() {
    PGresult* last = nullptr;
    while (awaitAnswer(connection_, kHeartbeatAnswer)) {
      PGresult* const next = PQgetResult(connection_);
      if (next == nullptr) return last;
      PQclear(last);
      last = next;
    }
    PQclear(last);
    return nullptr;
  }

  const std::string uri_;
  std::string token_key_;
  std::set<std::string> known_duties_;  ///< used by beat() only, which one thread at a time calls
  std::mutex mutex_;
  PGconn* connection_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ServerRegistry>> openPostgresServerRegistry(const std::string& uri) {
  auto registry = std::make_unique<PostgresServerRegistry>(uri);
  TESSERA_RETURN_IF_ERROR(registry->open());
  return registry;
}

}  // namespace tessera::storage
