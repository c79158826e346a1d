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
  Recovery recover(Database& any, const absl::Status& fault, int attempt) override;
  void committed(std::chrono::nanoseconds took, size_t transactions) override {
    if (options_.on_commit) options_.on_commit(took, transactions);
  }
  void batchEnded() override;
  void connect(const Notices& notices) override { channel_.emplace(uri_, notices); }
  void publish(const Notice& notice) override { channel_->publish(notice); }

 private:
  PostgresEngine(std::string uri, PostgresStoreOptions options) : uri_(std::move(uri)), options_(std::move(options)) {}
  absl::Status prepare();
  Recovery reconnect(PostgresDatabase& database, int attempt);
  /// Whether the batch whose COMMIT got no answer was committed.
  absl::StatusOr<bool> wasCommitted(PostgresDatabase& database);

  const std::string uri_;
  const PostgresStoreOptions options_;
  const std::string id_ = randomId();
  std::string token_key_;
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
  TESSERA_ASSIGN_OR_RETURN(writer_, PostgresDatabase::open(uri_, PostgresDatabase::Mode::kWrites));
  TESSERA_RETURN_IF_ERROR(migrate(*writer_));
  // Of servers that ended long ago.
  TESSERA_RETURN_IF_ERROR(writer_->execute("DELETE FROM store_writers WHERE seen < now() - interval '7 days'"));
  TESSERA_RETURN_IF_ERROR(
      writer_->execute(absl::StrCat("INSERT INTO store_writers VALUES ('", id_, "', 0, now())").c_str()));
  writer_->setCommitMark(id_);
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
                             PostgresDatabase::open(uri_, PostgresDatabase::Mode::kReads));
    readers_.push_back(std::move(reader));
  }
  return absl::OkStatus();
}

SqlEngine::Recovery PostgresEngine::recover(Database& any, const absl::Status& fault, int attempt) {
  auto& database = static_cast<PostgresDatabase&>(any);
  if (database.isLost()) {
    const Recovery recovery = reconnect(database, attempt);
    // The body of a read may have passed on what it read, so it runs again only if it has read nothing.
    return &database != writer_.get() && database.hasAnswers() ? Recovery::kGiveUp : recovery;
  }
  if (!absl::IsAborted(fault) || attempt >= kMaxConflicts) return Recovery::kGiveUp;
  database.setCareful(true);
  if (attempt >= kPoliteFrom && &database == writer_.get() && !has_turn_) {
    // If this fails, the connection is lost, which the next attempt notices.
    has_turn_ = database.execute(kTakeTurn).ok();
  }
  return Recovery::kRunAgain;
}

SqlEngine::Recovery PostgresEngine::reconnect(PostgresDatabase& database, int attempt) {
  if (&database == writer_.get()) has_turn_ = false;  // its lock ended with its session
  const Clock::time_point give_up = Clock::now() + options_.patience;
  std::chrono::milliseconds pause(attempt == 0 ? 0 : 10);
  while (true) {
    std::this_thread::sleep_for(pause);
    absl::Status status = database.reconnect();
    if (status.ok() && database.uncertainBatch() != 0) {
      const absl::StatusOr<bool> committed = wasCommitted(database);
      status = committed.status();
      if (committed.ok()) {
        database.clearUncertainBatch();
        if (*committed) return Recovery::kCommitted;
      }
    }
    if (status.ok()) return Recovery::kRunAgain;
    if (Clock::now() > give_up) {
      spdlog::error("the database cannot be reached: {}", std::string(status.message()));
      return Recovery::kGiveUp;
    }
    pause = std::min(pause * 2 + std::chrono::milliseconds(5), std::chrono::milliseconds(500));
  }
}

absl::StatusOr<bool> PostgresEngine::wasCommitted(PostgresDatabase& database) {
  // The update waits for a session that was lost within its COMMIT, if the server has not noticed its end yet. A
  // session that has not come that far can no longer commit, because its snapshot precedes the update of the row.
  TESSERA_ASSIGN_OR_RETURN(
      const std::string batch,
      database.answer(absl::StrCat("UPDATE store_writers SET seen = now() WHERE id = '", id_, "' RETURNING batch")));
  return batch == absl::StrCat(database.uncertainBatch());
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
