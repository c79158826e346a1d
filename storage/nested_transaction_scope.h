#pragma once

#include "storage/store.h"

namespace tessera::storage {

/// Marks the body that a thread is running for a store, so that calls of the body to the same store are nested in its
/// transaction (Store::transact). Bodies of several stores form a thread-local stack.
class NestedTransactionScope {
 public:
  NestedTransactionScope(const Store& store, Transaction& transaction)
      : NestedTransactionScope(store, transaction, &transaction) {}
  NestedTransactionScope(const Store& store, Reader& reader) : NestedTransactionScope(store, reader, nullptr) {}
  ~NestedTransactionScope() { innermost_ = around_; }
  NestedTransactionScope(const NestedTransactionScope&) = delete;
  NestedTransactionScope& operator=(const NestedTransactionScope&) = delete;

  /// The innermost body of this store on this thread; null: none.
  static NestedTransactionScope* of(const Store& store) {
    NestedTransactionScope* body = innermost_;
    while (body != nullptr && body->store_ != &store) body = body->around_;
    return body;
  }

  Reader& reader() { return reader_; }
  Transaction* transaction() const { return transaction_; }  ///< null in a read

 private:
  NestedTransactionScope(const Store& store, Reader& reader, Transaction* transaction)
      : store_(&store), reader_(reader), transaction_(transaction), around_(innermost_) {
    innermost_ = this;
  }

  const Store* store_;
  Reader& reader_;
  Transaction* transaction_;
  NestedTransactionScope* around_;
  inline static thread_local NestedTransactionScope* innermost_ = nullptr;
};

inline absl::Status transactionWithinRead() {
  return absl::InternalError("Store::transact was called from within a read, which sees one snapshot");
}

}  // namespace tessera::storage
