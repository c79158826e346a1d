#include "storage/sql/sql_store.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "proto/support/status_macros.h"
#include "storage/nested_transaction_scope.h"

namespace tessera::storage {
namespace {

absl::Status closing() { return absl::UnavailableError("the store is closing"); }

/// The condition on which a thread waits for its request. Each thread has its own, so that the threads of a batch can
/// be woken independently. It outlives the requests, so that finish() can notify after it has released the lock; a
/// thread that is woken earlier would block on the lock again.
struct Waiter {
  bool done = false;
  std::mutex mutex;
  std::condition_variable finished;
};

}  // namespace

/// A unit of work for the writer thread.
struct SqlStore::Request {
  virtual ~Request() = default;
  virtual absl::Status run(Transaction& transaction) = 0;
  /// Reports the result to the caller, who may then destroy the request.
  virtual void finish() = 0;
  absl::Status result = absl::UnknownError("the request did not run");
  Notice notice;
};
/// Request of a caller that waits in transact().
struct SqlStore::Awaited : Request {
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
struct SqlStore::Detached : Request {
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

SqlStore::SqlStore(std::unique_ptr<SqlEngine> engine)
    : engine_(std::move(engine)),
      transaction_(engine_->writer(), engine_->tokenKey()),
      idle_readers_(engine_->readers()) {
  engine_->connect(notices_);
  thread_ = std::thread([this] { writeLoop(); });
}

SqlStore::~SqlStore() {
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    stopping_ = true;
  }
  queue_changed_.notify_all();
  thread_.join();
}

absl::Status SqlStore::transact(const std::function<absl::Status(Transaction&)>& body) {
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

void SqlStore::transactAsync(std::function<absl::Status(Transaction&)> body,
                             std::function<void(const absl::Status&)> done) {
  // Inside a body, waiting for the writer would deadlock: run it nested.
  if (NestedTransactionScope::of(*this) != nullptr) return done(transact(body));
  auto request = std::make_unique<Detached>(notices_, std::move(body), std::move(done));
  if (!enqueue(*request)) return request->done(closing());
  (void)request.release();  // finish() deletes it
}

bool SqlStore::enqueue(Request& request) {
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    if (stopping_) return false;
    queue_.push_back(&request);
  }
  queue_changed_.notify_one();
  return true;
}

void SqlStore::writeLoop() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(queue_mutex_);
      queue_changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
    }
    writeBatch();
    engine_->batchEnded();
  }
}

/// Group commit: while one commit waits for the disk, callers queue up, and the next commit takes all of them.
void SqlStore::writeBatch() {
  std::vector<Request*> batch;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = settle(batch, engine_->maxBatch());
  if (status.ok()) engine_->committed(std::chrono::steady_clock::now() - begin, batch.size());
  Notice together;
  for (const Request* request : batch) {
    if (!status.ok() || !request->result.ok()) continue;
    together.tasks_ready += request->notice.tasks_ready;
    together.changed_jobs.insert(request->notice.changed_jobs.begin(), request->notice.changed_jobs.end());
  }
  if (together.tasks_ready > 0 || !together.changed_jobs.empty()) engine_->publish(together);
  for (Request* request : batch) {
    if (!status.ok()) request->result = status;  // the shared commit failed, so nothing of the batch is stored
    request->finish();
  }
}

/// Runs the batch until it is committed, or cannot be. Up to `most` requests join it.
absl::Status SqlStore::settle(std::vector<Request*>& batch, size_t most) {
  const auto begun = std::chrono::steady_clock::now();
  for (int number = 0;; ++number) {
    absl::Status status = attempt(batch, most);
    if (status.ok()) return status;
    switch (engine_->recover(engine_->writer(), status, number, begun)) {
      case SqlEngine::Recovery::kRunAgain:
        continue;
      case SqlEngine::Recovery::kCommitted:
        return absl::OkStatus();
      case SqlEngine::Recovery::kUnreachable:
        refuseWaiting(status);
        return status;
      case SqlEngine::Recovery::kGiveUp:
        return status;
      case SqlEngine::Recovery::kRunAlone:
        if (batch.size() == 1) return status;
        runAlone(batch);
        return absl::OkStatus();
    }
  }
}

/// One of the bodies fails the transaction that they share.
void SqlStore::runAlone(const std::vector<Request*>& batch) {
  absl::Status unreachable;
  for (Request* request : batch) {
    std::vector<Request*> alone = {request};
    const absl::Status status = unreachable.ok() ? settle(alone, 1) : unreachable;
    if (!status.ok()) request->result = status;
    if (absl::IsUnavailable(status)) unreachable = status;
  }
}

void SqlStore::refuseWaiting(const absl::Status& status) {
  std::deque<Request*> waiting;
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    waiting.swap(queue_);
  }
  for (Request* request : waiting) {
    request->result = status;
    request->finish();
  }
}

/// Runs the batch in one transaction, and commits it. Requests that arrive meanwhile join the batch.
absl::Status SqlStore::attempt(std::vector<Request*>& batch, size_t most) {
  Database& writer = engine_->writer();
  writer.clearFault();
  absl::Status status = writer.begin();
  for (size_t at = 0; at < most; ++at) {
    if (at == batch.size()) {
      const std::lock_guard<std::mutex> lock(queue_mutex_);
      if (queue_.empty()) break;
      batch.push_back(queue_.front());
      queue_.pop_front();
    }
    // After a fault nothing of the batch is kept; the remaining requests only get the error.
    if (!status.ok()) continue;
    batch[at]->result = run(*batch[at]);
    status = writer.fault();
  }
  if (status.ok()) status = writer.commit();
  // No effect after a successful commit.
  writer.rollback();
  return status;
}

absl::Status SqlStore::run(Request& request) {
  return inSavepoint([&] {
    const NestedTransactionScope running(*this, static_cast<Transaction&>(transaction_));
    const absl::Status status = request.run(transaction_);
    request.notice = transaction_.takeNotice();
    return status;
  });
}

absl::Status SqlStore::inSavepoint(const std::function<absl::Status()>& body) {
  Database& writer = engine_->writer();
  writer.savepoints().begin();
  const absl::Status status = body();
  const absl::Status ended = writer.savepoints().end(status.ok());
  if (!ended.ok()) writer.setFault(ended);
  return ended.ok() ? status : ended;
}

absl::Status SqlStore::read(const std::function<absl::Status(Reader&)>& body) {
  if (NestedTransactionScope* around = NestedTransactionScope::of(*this)) return body(around->reader());
  std::unique_ptr<Database> database;
  {
    std::unique_lock<std::mutex> lock(readers_mutex_);
    if (!reader_freed_.wait_for(lock, engine_->patience(), [&] { return !idle_readers_.empty(); })) {
      return absl::UnavailableError("all connections of the store that read are busy; try again");
    }
    database = std::move(idle_readers_.back());
    idle_readers_.pop_back();
  }
  absl::Cleanup give_back = [&] {
    const std::lock_guard<std::mutex> lock(readers_mutex_);
    idle_readers_.push_back(std::move(database));
    reader_freed_.notify_one();
  };
  const auto begun = std::chrono::steady_clock::now();
  for (int number = 0;; ++number) {
    database->clearFault();
    absl::Status status = readOnce(*database, body);
    database->rollback();
    absl::Status fault = database->fault();
    if (fault.ok() || engine_->recover(*database, fault, number, begun) != SqlEngine::Recovery::kRunAgain) {
      return status;
    }
  }
}

absl::Status SqlStore::readOnce(Database& database, const std::function<absl::Status(Reader&)>& body) {
  TESSERA_RETURN_IF_ERROR(database.begin());
  SqlReader<Reader> reader(database, engine_->tokenKey());
  const NestedTransactionScope running(*this, static_cast<Reader&>(reader));
  return body(reader);
}

}  // namespace tessera::storage
