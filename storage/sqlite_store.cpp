#include "storage/sqlite_store.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/file_lock.h"
#include "storage/sql/sql_store.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/migrate.h"

namespace tessera::storage {
namespace {

/// Databases up to this size are checked completely when opened (about 100 ms); larger ones when pages are read.
constexpr int64_t kCheckedBytes = 64 << 20;
/// If readers prevented checkpoints until the log is this many times its usual size, the writer waits for them.
constexpr int kRestartFactor = 8;

absl::StatusOr<int64_t> databaseBytes(SqliteDatabase& database) {
  int64_t product = 1;
  for (const char* sql : {"PRAGMA page_count", "PRAGMA page_size"}) {
    Statement statement = database.prepareOnce(sql);
    TESSERA_RETURN_IF_ERROR(statement.step().status());
    product *= statement.integer(0);
  }
  return product;
}

class SqliteEngine : public SqlEngine {
 public:
  static absl::StatusOr<std::unique_ptr<SqlEngine>> open(const std::string& path, const SqliteStoreOptions& options);

  Database& writer() override { return *writer_; }
  const std::string& tokenKey() const override { return token_key_; }
  std::vector<std::unique_ptr<Database>> readers() override { return std::move(readers_); }
  void committed(std::chrono::nanoseconds took, size_t transactions) override {
    const int64_t changes = sqlite3_total_changes64(writer_->handle());
    if (options_.on_commit && changes != changes_) options_.on_commit(took, transactions);
    changes_ = changes;
  }
  /// Checkpoints if the log is long.
  void batchEnded() override;

 private:
  explicit SqliteEngine(SqliteStoreOptions options) : options_(std::move(options)) {}
  absl::Status prepare(const std::string& path);

  const SqliteStoreOptions options_;
  std::unique_ptr<FileLock> lock_;
  std::string token_key_;
  std::unique_ptr<SqliteDatabase> writer_;
  std::vector<std::unique_ptr<Database>> readers_;
  int log_pages_ = 0;
  int64_t changes_ = 0;
};

absl::StatusOr<std::unique_ptr<SqlEngine>> SqliteEngine::open(const std::string& path,
                                                              const SqliteStoreOptions& options) {
  std::unique_ptr<SqliteEngine> engine(new SqliteEngine(options));
  if (options.vfs == nullptr) {
    TESSERA_ASSIGN_OR_RETURN(engine->lock_, FileLock::take(path + ".lock"));
  }
  TESSERA_RETURN_IF_ERROR(engine->prepare(path));
  return engine;
}

absl::Status SqliteEngine::prepare(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(writer_, SqliteDatabase::open(path, SqliteDatabase::Mode::kReadWriteCreate, options_.vfs));
  writer_->setBusyTimeout(options_.busy);
  absl::Status status = writer_->execute(
      "PRAGMA journal_mode = WAL;"
      "PRAGMA foreign_keys = ON;"
      "PRAGMA cache_size = -16384;"            // KiB
      "PRAGMA journal_size_limit = 67108864;"  // bytes of log kept after a checkpoint
      "PRAGMA trusted_schema = OFF;");
  if (status.ok()) status = writer_->execute(absl::StrCat("PRAGMA synchronous = ", options_.synchronous).c_str());
  if (!status.ok()) return status;
  TESSERA_ASSIGN_OR_RETURN(int64_t bytes, databaseBytes(*writer_));
  if (bytes > 0 && bytes <= kCheckedBytes) {
    Statement verdict = writer_->prepareOnce("PRAGMA quick_check(1)");
    TESSERA_ASSIGN_OR_RETURN(bool row, verdict.step());
    if (row && verdict.bytes(0) != "ok") {
      return absl::DataLossError(
          absl::StrCat(path, ": the file is damaged (", std::string(verdict.bytes(0)), "); restore it from a backup"));
    }
  }
  if (status = migrate(*writer_); !status.ok()) return status;
  // Keep savepoint journals in memory; on disk each larger transaction would create and delete a file. Set after the
  // migrations, whose journals may be as large as the database.
  if (status = writer_->execute("PRAGMA temp_store = MEMORY"); !status.ok()) return status;
  {
    Statement key = writer_->prepareOnce("SELECT value FROM settings WHERE name = 'token_key'");
    TESSERA_ASSIGN_OR_RETURN(bool row, key.step());
    if (!row) return absl::DataLossError(absl::StrCat(path, ": the setting token_key is missing; restore a backup"));
    token_key_ = std::string(key.bytes(0));
  }
  for (int i = 0; i < options_.readers; ++i) {
    TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> reader,
                             SqliteDatabase::open(path, SqliteDatabase::Mode::kReadOnly, options_.vfs));
    reader->setBusyTimeout(options_.busy);
    if (status = reader->execute("PRAGMA cache_size = -4096; PRAGMA query_only = ON"); !status.ok()) return status;
    readers_.push_back(std::move(reader));
  }
  // Replaces automatic checkpoints, which would run inside a commit: checkpoint() runs between batches.
  sqlite3_wal_hook(
      writer_->handle(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteEngine*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  changes_ = sqlite3_total_changes64(writer_->handle());
  return absl::OkStatus();
}

void SqliteEngine::batchEnded() {
  if (log_pages_ < options_.checkpoint_pages) return;
  // A failed checkpoint loses nothing: the log is intact, and the next checkpoint retries.
  const bool patient = log_pages_ < options_.checkpoint_pages * kRestartFactor;
  const int mode = patient ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_RESTART;
  sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, mode, nullptr, nullptr);
  log_pages_ = 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> openSqliteStore(const std::string& path, const SqliteStoreOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqlEngine> engine, SqliteEngine::open(path, options));
  return std::make_unique<SqlStore>(std::move(engine));
}

bool isForeignOrDamaged(const absl::Status& status) {
  return absl::IsDataLoss(status) || status.GetPayload(kForeignDatabase).has_value();
}

}  // namespace tessera::storage
