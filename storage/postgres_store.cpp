#include "storage/postgres_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/support/status_macros.h"
#include "storage/postgres/database.h"
#include "storage/postgres/migrate.h"
#include "storage/postgres/notice_channel.h"
#include "storage/sql/sql_store.h"

namespace tessera::storage {
namespace {

using Clock = std::chrono::steady_clock;

/// Attempts of a transaction that conflicts with other servers. From the third on, only one server at a time repeats
/// transactions, so each repetition has fewer rivals.
constexpr int kMaxConflicts = 100;
constexpr int kPoliteFrom = 2;
constexpr const char* kTakeTurn = "SELECT pg_advisory_lock(1414746690)";
constexpr const char* kEndTurn = "SELECT pg_advisory_unlock(1414746690)";

std::string randomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

class PostgresEngine : public SqlEngine {
 public:
  static absl::StatusOr<std::unique_ptr<SqlEngine>> open(const std::string& uri, const PostgresStoreOptions& options);

  Database& writer() override { return *writer_; }
  const std::string& tokenKey() const override { return token_key_; }
  std::vector<std::unique_ptr<Database>> readers() override { return std::move(readers_); }
  size_t maxBatch() const override { return options_.batch; }
  std::string origin() const override { return origin_; }
  std::chrono::milliseconds patience() const override { return options_.patience; }
  Recovery recover(Database& any, absl::Status& fault, int attempt, Clock::time_point begun) override;
  void committed(std::chrono::nanoseconds took, size_t transactions) override {
    if (options_.on_commit) options_.on_commit(took, transactions);
  }
  void batchEnded() override;
  void connect(const Notices& notices) override { channel_.emplace(uri_, notices); }
  void publish(const Notice& notice) override { channel_->publish(notice); }

 private:
  PostgresEngine(std::string uri, PostgresStoreOptions options) : uri_(std::move(uri)), options_(std::move(options)) {}
  absl::Status prepare();
  Recovery reconnect(PostgresDatabase& database, int attempt, Clock::time_point give_up);

  const std::string uri_;
  const PostgresStoreOptions options_;
  const std::string id_ = randomId();
  std::string token_key_, origin_;
  std::unique_ptr<PostgresDatabase> writer_;
  std::vector<std::unique_ptr<Database>> readers_;
  bool has_turn_ = false;
  std::optional<NoticeChannel> channel_;
};

absl::StatusOr<std::unique_ptr<SqlEngine>> PostgresEngine::open(const std::string& uri,
                                                                const PostgresStoreOptions& options) {
  std::unique_ptr<PostgresEngine> engine(new PostgresEngine(uri, options));
  TESSERA_RETURN_IF_ERROR(engine->prepare());
  return engine;
}

absl::Status PostgresEngine::prepare() {
  TESSERA_ASSIGN_OR_RETURN(writer_, PostgresDatabase::open(uri_, PostgresDatabase::Mode::kWrites, options_.limits));
  TESSERA_RETURN_IF_ERROR(migrate(*writer_));
  // Of servers that ended long ago.
  TESSERA_RETURN_IF_ERROR(writer_->execute("DELETE FROM store_writers WHERE seen < now() - interval '7 days'"));
  writer_->setCommitMark(id_);
  // A physical copy, such as a promoted standby, has the same identifier as its origin; a restored dump has not.
  const absl::StatusOr<std::string> origin = writer_->answer(
      "SELECT system_identifier || '-' || (SELECT oid FROM pg_database WHERE datname = current_database()) "
      "FROM pg_control_system()");
  if (origin.ok()) origin_ = *origin;
  writer_->setRehearsal(options_.run_bodies_twice);
  TESSERA_RETURN_IF_ERROR(writer_->begin());
  {
    Statement key = writer_->prepareOnce("SELECT value FROM settings WHERE name = 'token_key'");
    TESSERA_ASSIGN_OR_RETURN(const bool row, key.step());
    if (!row) return absl::DataLossError("the setting token_key is missing; restore a backup");
    token_key_ = std::string(key.bytes(0));
  }
  writer_->rollback();
  for (int i = 0; i < options_.readers; ++i) {
    TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<PostgresDatabase> reader,
                             PostgresDatabase::open(uri_, PostgresDatabase::Mode::kReads, options_.limits));
    readers_.push_back(std::move(reader));
  }
  return absl::OkStatus();
}

SqlEngine::Recovery PostgresEngine::recover(Database& any, absl::Status& fault, int attempt, Clock::time_point begun) {
  auto& database = static_cast<PostgresDatabase&>(any);
  const bool writes = &database == writer_.get();
  const Clock::time_point give_up = begun + options_.patience;
  if (database.isLost()) {
    const Recovery recovery = reconnect(database, attempt, give_up);
    // The body of a read may have passed on what it read, so it runs again only if it has read nothing.
    const bool again = recovery == Recovery::kRunAgain && (writes || !database.hasAnswers()) && Clock::now() < give_up;
    if (recovery == Recovery::kCommitted || again) return recovery;
    if (!absl::IsUnavailable(fault)) fault = absl::UnavailableError(fault.message());
    return recovery == Recovery::kUnreachable ? recovery : Recovery::kGiveUp;
  }
  if (!absl::IsAborted(fault)) return writes ? Recovery::kRunAlone : Recovery::kGiveUp;
  if (attempt >= kMaxConflicts || Clock::now() > give_up) {
    fault = absl::UnavailableError(
        absl::StrCat("other sessions keep changing or locking the same rows: ", fault.message()));
    return Recovery::kGiveUp;
  }
  database.setCareful(true);
  if (attempt >= kPoliteFrom && writes && !has_turn_) {
    // If this fails, the connection is lost, which the next attempt notices, or another server holds the turn for too
    // long, and this one goes on without it.
    has_turn_ = database.execute(kTakeTurn).ok();
  }
  return Recovery::kRunAgain;
}

SqlEngine::Recovery PostgresEngine::reconnect(PostgresDatabase& database, int attempt, Clock::time_point give_up) {
  if (&database == writer_.get()) has_turn_ = false;  // its lock ended with its session
  std::chrono::milliseconds pause(attempt == 0 ? 0 : 10);
  while (true) {
    std::this_thread::sleep_for(pause);
    absl::Status status = database.reconnect();
    if (status.ok() && database.uncertainBatch() != 0) {
      const absl::StatusOr<bool> committed = database.closeUncertainBatch();
      status = committed.status();
      if (committed.ok() && *committed) return Recovery::kCommitted;
    }
    if (status.ok()) return Recovery::kRunAgain;
    if (Clock::now() > give_up) {
      spdlog::error("the database cannot be reached: {}", std::string(status.message()));
      return Recovery::kUnreachable;
    }
    pause = std::min(pause * 2 + std::chrono::milliseconds(5), std::chrono::milliseconds(500));
  }
}

void PostgresEngine::batchEnded() {
  writer_->setCareful(false);
  if (std::exchange(has_turn_, false)) (void)writer_->execute(kEndTurn);
}

}  // namespace

bool isPostgresUri(std::string_view store) {
  return store.starts_with("postgresql://") || store.starts_with("postgres://");
}

absl::StatusOr<std::unique_ptr<Store>> openPostgresStore(const std::string& uri, const PostgresStoreOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqlEngine> engine, PostgresEngine::open(uri, options));
  return std::make_unique<SqlStore>(std::move(engine));
}

}  // namespace tessera::storage
