#include "storage/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/nested_transaction_scope.h"
#include "storage/notices.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/migrate.h"
#include "storage/sqlite/transaction.h"

namespace tessera::storage {
namespace {

/// Maximum number of transactions per commit; bounds the wait of the first one.
constexpr size_t kMaxBatch = 256;
/// Databases up to this size are checked completely when opened (about 100 ms); larger ones when pages are read.
constexpr int64_t kCheckedBytes = 64 << 20;
/// If readers prevented checkpoints until the log is this many times its usual size, the writer waits for them.
constexpr int kRestartFactor = 8;

/// Exclusive lock on `path`, held until destruction.
class FileLock {
 public:
  static absl::StatusOr<std::unique_ptr<FileLock>> take(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": ", strerror(errno), "; check that the folder exists and is writable"));
    }
    std::unique_ptr<FileLock> lock(new FileLock(file));
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      const std::string holder = absl::StrCat(getpid(), "\n");
      if (ftruncate(file, 0) != 0 || pwrite(file, holder.data(), holder.size(), 0) < 0) {
        // Only the other process's error message lacks the holder then.
      }
      return lock;
    }
    char holder[16] = {};
    if (pread(file, holder, sizeof holder - 1, 0) <= 0) holder[0] = '\0';
    return absl::FailedPreconditionError(absl::StrCat(path, ": the database is in use by process ",
                                                      std::string(holder, strcspn(holder, "\n")),
                                                      "; stop that server or give this one another data folder"));
  }
  ~FileLock() { close(file_); }

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_;
};

absl::StatusOr<int64_t> databaseBytes(Database& database) {
  int64_t product = 1;
  for (const char* sql : {"PRAGMA page_count", "PRAGMA page_size"}) {
    Statement statement = database.prepareOnce(sql);
    TESSERA_RETURN_IF_ERROR(statement.step().status());
    product *= statement.integer(0);
  }
  return product;
}

absl::Status closing() { return absl::UnavailableError("the store is closing"); }

class SqliteStore : public Store {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> open(const std::string& path, const SqliteStoreOptions& options);
  ~SqliteStore() override;

  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override;
  void transactAsync(std::function<absl::Status(Transaction&)> body,
                     std::function<void(const absl::Status&)> done) override;
  absl::Status read(const std::function<absl::Status(Reader&)>& body) override;
  std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) override {
    return notices_.listen(std::move(listener));
  }

 private:
  /// Where a thread waits for its request. Each thread has its own, so that the threads of a batch can be woken
  /// independently. It outlives the requests, so that finish() can notify after it has released the lock; a thread that
  /// is woken earlier would block on the lock again.
  struct Waiter {
    bool done = false;
    std::mutex mutex;
    std::condition_variable finished;
  };
  /// A unit of work for the writer thread.
  struct Request {
    virtual ~Request() = default;
    virtual absl::Status run(Transaction& transaction) = 0;
    /// Reports the result to the caller, who may then destroy the request.
    virtual void finish() = 0;
    absl::Status result;
    Notice notice;
  };
  /// Request of a caller that waits in transact().
  struct Awaited : Request {
    explicit Awaited(const std::function<absl::Status(Transaction&)>& what) : body(what) { waiter->done = false; }
    absl::Status run(Transaction& transaction) override { return body(transaction); }
    /// The caller may destroy the request as soon as it sees `done`, so do not access it afterwards.
    void finish() override {
      const std::shared_ptr<Waiter> at = waiter;
      {
        const std::lock_guard<std::mutex> lock(at->mutex);
        at->done = true;
      }
      at->finished.notify_one();
    }
    void wait() {
      std::unique_lock<std::mutex> lock(waiter->mutex);
      waiter->finished.wait(lock, [&] { return waiter->done; });
    }
    static std::shared_ptr<Waiter> ofThisThread() {
      static thread_local const auto own = std::make_shared<Waiter>();
      return own;
    }
    const std::function<absl::Status(Transaction&)>& body;
    const std::shared_ptr<Waiter> waiter = ofThisThread();
  };
  /// Asynchronous request, which owns itself.
  struct Detached : Request {
    Detached(const Notices& board, std::function<absl::Status(Transaction&)> what,
             std::function<void(const absl::Status&)> then)
        : notices(board), body(std::move(what)), done(std::move(then)) {}
    absl::Status run(Transaction& transaction) override { return body(transaction); }
    void finish() override {
      const std::unique_ptr<Detached> self(this);
      if (result.ok()) notices.post(notice);
      done(result);
    }
    const Notices& notices;
    const std::function<absl::Status(Transaction&)> body;
    const std::function<void(const absl::Status&)> done;
  };

  explicit SqliteStore(SqliteStoreOptions options) : options_(std::move(options)) {}
  absl::Status prepare(const std::string& path);
  /// Returns false if the store is closing.
  bool enqueue(Request& request);
  void writeLoop();
  void writeBatch();
  absl::Status run(Request& request);
  absl::Status inSavepoint(const std::function<absl::Status()>& body);
  void checkpoint();

  const SqliteStoreOptions options_;
  std::unique_ptr<FileLock> lock_;
  std::string token_key_;

  // The writer's connection is used by its thread only.
  std::unique_ptr<Database> writer_;
  std::unique_ptr<SqliteTransaction> transaction_;
  int log_pages_ = 0;
  std::mutex queue_mutex_;
  std::condition_variable queue_changed_;
  std::deque<Request*> queue_;
  bool stopping_ = false;
  std::thread thread_;
  Notices notices_;

  std::mutex readers_mutex_;
  std::condition_variable reader_freed_;
  std::vector<std::unique_ptr<Database>> idle_readers_;
};

absl::StatusOr<std::unique_ptr<Store>> SqliteStore::open(const std::string& path, const SqliteStoreOptions& options) {
  std::unique_ptr<SqliteStore> store(new SqliteStore(options));
  if (options.vfs == nullptr) {
    TESSERA_ASSIGN_OR_RETURN(store->lock_, FileLock::take(path + ".lock"));
  }
  TESSERA_RETURN_IF_ERROR(store->prepare(path));
  store->thread_ = std::thread([raw = store.get()] { raw->writeLoop(); });
  return store;
}

absl::Status SqliteStore::prepare(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(writer_, Database::open(path, Database::Mode::kReadWriteCreate, options_.vfs));
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
    TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<Database> reader,
                             Database::open(path, Database::Mode::kReadOnly, options_.vfs));
    reader->setBusyTimeout(options_.busy);
    if (status = reader->execute("PRAGMA cache_size = -4096; PRAGMA query_only = ON"); !status.ok()) return status;
    idle_readers_.push_back(std::move(reader));
  }
  // Replaces automatic checkpoints, which would run inside a commit: checkpoint() runs between batches.
  sqlite3_wal_hook(
      writer_->handle(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteStore*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  transaction_ = std::make_unique<SqliteTransaction>(*writer_, token_key_);
  return absl::OkStatus();
}

SqliteStore::~SqliteStore() {
  {
    std::lock_guard<std::mutex> lock(queue_mutex_);
    stopping_ = true;
  }
  queue_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status SqliteStore::transact(const std::function<absl::Status(Transaction&)>& body) {
  if (NestedTransactionScope* around = NestedTransactionScope::of(*this)) {
    return around->transaction() == nullptr ? transactionWithinRead()
                                            : inSavepoint([&] { return body(*around->transaction()); });
  }
  Awaited request(body);
  if (!enqueue(request)) return closing();
  request.wait();
  if (request.result.ok()) notices_.post(request.notice);
  return request.result;
}

void SqliteStore::transactAsync(std::function<absl::Status(Transaction&)> body,
                                std::function<void(const absl::Status&)> done) {
  // Inside a body, waiting for the writer would deadlock: run it nested.
  if (NestedTransactionScope::of(*this) != nullptr) return done(transact(body));
  auto request = std::make_unique<Detached>(notices_, std::move(body), std::move(done));
  if (!enqueue(*request)) return request->done(closing());
  (void)request.release();  // finish() deletes it
}

bool SqliteStore::enqueue(Request& request) {
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    if (stopping_) return false;
    queue_.push_back(&request);
  }
  queue_changed_.notify_one();
  return true;
}

void SqliteStore::writeLoop() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(queue_mutex_);
      queue_changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
    }
    writeBatch();
    checkpoint();
  }
}

/// Group commit: while one commit waits for the disk, callers queue up, and the next commit takes all of them.
void SqliteStore::writeBatch() {
  std::vector<Request*> batch;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t changes = sqlite3_total_changes64(writer_->handle());
  writer_->clearFault();
  absl::Status status = writer_->prepare("BEGIN IMMEDIATE").run();
  // Requests that arrive while earlier ones run join this batch.
  while (batch.size() < kMaxBatch) {
    {
      std::lock_guard<std::mutex> lock(queue_mutex_);
      if (queue_.empty()) break;
      batch.push_back(queue_.front());
      queue_.pop_front();
    }
    // After a fault nothing of the batch is kept; the remaining requests only get the error.
    if (!status.ok()) continue;
    batch.back()->result = run(*batch.back());
    status = writer_->fault();
  }
  if (status.ok()) status = writer_->prepare("COMMIT").run();
  // No effect after a successful commit.
  writer_->rollback();
  if (status.ok() && options_.on_commit && sqlite3_total_changes64(writer_->handle()) != changes) {
    options_.on_commit(std::chrono::steady_clock::now() - begin, batch.size());
  }
  for (Request* request : batch) {
    if (!status.ok()) request->result = status;  // the shared commit failed, so nothing of the batch is stored
    request->finish();
  }
}

absl::Status SqliteStore::run(Request& request) {
  return inSavepoint([&] {
    const NestedTransactionScope running(*this, static_cast<Transaction&>(*transaction_));
    const absl::Status status = request.run(*transaction_);
    request.notice = transaction_->takeNotice();
    return status;
  });
}

absl::Status SqliteStore::inSavepoint(const std::function<absl::Status()>& body) {
  writer_->savepoints().begin();
  const absl::Status status = body();
  const absl::Status ended = writer_->savepoints().end(status.ok());
  if (!ended.ok()) writer_->setFault(ended);
  return ended.ok() ? status : ended;
}

void SqliteStore::checkpoint() {
  if (log_pages_ < options_.checkpoint_pages) return;
  // A failed checkpoint loses nothing: the log is intact, and the next checkpoint retries.
  const bool patient = log_pages_ < options_.checkpoint_pages * kRestartFactor;
  const int mode = patient ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_RESTART;
  sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, mode, nullptr, nullptr);
  log_pages_ = 0;
}

absl::Status SqliteStore::read(const std::function<absl::Status(Reader&)>& body) {
  if (NestedTransactionScope* around = NestedTransactionScope::of(*this)) return body(around->reader());
  std::unique_ptr<Database> database;
  {
    std::unique_lock<std::mutex> lock(readers_mutex_);
    reader_freed_.wait(lock, [&] { return !idle_readers_.empty(); });
    database = std::move(idle_readers_.back());
    idle_readers_.pop_back();
  }
  absl::Cleanup give_back = [&] {
    database->rollback();
    std::lock_guard<std::mutex> lock(readers_mutex_);
    idle_readers_.push_back(std::move(database));
    reader_freed_.notify_one();
  };
  TESSERA_RETURN_IF_ERROR(database->prepare("BEGIN").run());
  SqliteReader<Reader> reader(*database, token_key_);
  const NestedTransactionScope running(*this, static_cast<Reader&>(reader));
  return body(reader);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> openSqliteStore(const std::string& path, const SqliteStoreOptions& options) {
  return SqliteStore::open(path, options);
}

bool isForeignOrDamaged(const absl::Status& status) {
  return absl::IsDataLoss(status) || status.GetPayload(kForeignDatabase).has_value();
}

}  // namespace tessera::storage
