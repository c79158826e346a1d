#include "storage/memory_store.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "storage/memory/transaction.h"
#include "storage/nested_transaction_scope.h"
#include "storage/notices.h"

namespace tessera::storage {
namespace {

/// Admits callers in the order of arrival, so that a writer that returns at once does not starve readers.
class FairMutex {
 public:
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t ticket = next_++;
    turn_.wait(lock, [&] { return ticket == serving_; });
  }
  void unlock() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++serving_;
    }
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ = 0;
  uint64_t serving_ = 0;
};

class MemoryStore : public Store {
 public:
  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override {
    if (NestedTransactionScope* around = NestedTransactionScope::of(*this)) {
      if (around->transaction() == nullptr) return transactionWithinRead();
      const size_t before = tables_.undo.steps();
      absl::Status status = body(*around->transaction());
      if (!status.ok()) tables_.undo.rollBack(before);
      return status;
    }
    MemoryTransaction transaction(tables_);
    absl::Status status;
    {
      const std::lock_guard lock(mutex_);
      const NestedTransactionScope running(*this, static_cast<Transaction&>(transaction));
      status = body(transaction);
      if (status.ok()) {
        tables_.undo.forget();
      } else {
        tables_.undo.rollBack();
      }
    }
    if (status.ok()) notices_.post(transaction.notice());
    return status;
  }

  absl::Status read(const std::function<absl::Status(Reader&)>& body) override {
    if (NestedTransactionScope* around = NestedTransactionScope::of(*this)) return body(around->reader());
    const std::lock_guard lock(mutex_);
    MemoryTransaction reader(tables_);
    const NestedTransactionScope running(*this, static_cast<Reader&>(reader));
    return body(reader);
  }

  std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) override {
    return notices_.listen(std::move(listener));
  }

 private:
  FairMutex mutex_;
  Notices notices_;
  Tables tables_;
};

}  // namespace

std::unique_ptr<Store> makeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace tessera::storage
