#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "storage/notices.h"
#include "storage/sql/database.h"
#include "storage/sql/transaction.h"
#include "storage/store.h"

namespace tessera::storage {

/// The connections of an SqlStore, and the behaviour in which engines differ. The methods after `readers` are called
/// on the writer's thread, recover() also on a reader's.
class SqlEngine {
 public:
  virtual ~SqlEngine() = default;
  /// Used by the writer's thread only.
  virtual Database& writer() = 0;
  /// Signs page tokens.
  virtual const std::string& tokenKey() const = 0;
  /// Store::origin().
  virtual std::string origin() const { return ""; }
  /// Hands over the connections for reads; called once.
  virtual std::vector<std::unique_ptr<Database>> readers() = 0;

  /// Maximum number of transactions per commit; bounds the wait of the first one.
  virtual size_t maxBatch() const { return 256; }
  enum class Recovery {
    kGiveUp,       ///< the fault is the result of all transactions of the batch
    kUnreachable,  ///< likewise, and of all that wait: each would need the same time
    kRunAgain,     ///< nothing was committed; the same bodies run again in a new transaction
    kRunAlone,  ///< nothing was committed; each body runs again in a transaction of its own, and the fault is its own
    kCommitted  ///< the batch was committed although the answer was lost
  };
  /// Called after a transaction of this connection was rolled back because of `fault`, before attempt `attempt` + 1
  /// (the first attempt is 0, and began at `begun`). May wait or connect again, and may explain the fault.
  virtual Recovery recover(Database& /*database*/, absl::Status& /*fault*/, int /*attempt*/,
                           std::chrono::steady_clock::time_point /*begun*/) {
    return Recovery::kGiveUp;
  }
  /// How long a read waits for a free connection.
  virtual std::chrono::milliseconds patience() const { return std::chrono::minutes(10); }
  /// After each commit, with the time from the start of the first transaction and the number of transactions.
  virtual void committed(std::chrono::nanoseconds /*took*/, size_t /*transactions*/) {}
  /// After each batch, when its callers have been answered.
  virtual void batchEnded() {}
  /// Sends a committed notice to the other processes that use the database. Notices of others go to `notices`.
  virtual void connect(const Notices& /*notices*/) {}
  virtual void publish(const Notice& /*notice*/) {}
};

/// A store on an SQL engine. One thread runs the transactions of concurrent callers one after another, several in one
/// commit (group commit); reads use a pool of connections.
class SqlStore : public Store {
 public:
  explicit SqlStore(std::unique_ptr<SqlEngine> engine);
  ~SqlStore() override;

  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override;
  void transactAsync(std::function<absl::Status(Transaction&)> body,
                     std::function<void(const absl::Status&)> done) override;
  absl::Status read(const std::function<absl::Status(Reader&)>& body) override;
  std::string origin() const override { return engine_->origin(); }
  std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) override {
    return notices_.listen(std::move(listener));
  }

 private:
  struct Request;
  struct Awaited;
  struct Detached;

  /// Returns false if the store is closing.
  bool enqueue(Request& request);
  void writeLoop();
  void writeBatch();
  absl::Status settle(std::vector<Request*>& batch, size_t most);
  void runAlone(const std::vector<Request*>& batch);
  absl::Status attempt(std::vector<Request*>& batch, size_t most);
  void refuseWaiting(const absl::Status& status);
  absl::Status run(Request& request);
  absl::Status inSavepoint(const std::function<absl::Status()>& body);
  absl::Status readOnce(Database& database, const std::function<absl::Status(Reader&)>& body);

  Notices notices_;
  const std::unique_ptr<SqlEngine> engine_;
  SqlTransaction transaction_;  ///< of the writer's connection; used by its thread only
  std::mutex queue_mutex_;
  std::condition_variable queue_changed_;
  std::deque<Request*> queue_;
  bool stopping_ = false;

  std::mutex readers_mutex_;
  std::condition_variable reader_freed_;
  std::vector<std::unique_ptr<Database>> idle_readers_;
  std::thread thread_;
};

}  // namespace tessera::storage
