#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/store.h"

namespace tessera::storage {

/// Bytes of small blobs, stored as rows of the database. A row becomes durable with its transaction. If that
/// transaction does more (Store::transact), one sync covers all of it. Thread-safe.
class BlobRows {
 public:
  /// If `store` is null, no blob is stored here. Blobs of up to `most_bytes` are.
  BlobRows(Store* store, int64_t most_bytes) : store_(store), most_bytes_(most_bytes) {}

  bool takes(int64_t bytes) const { return store_ != nullptr && bytes <= most_bytes_; }

  /// NOT_FOUND if the blob is not a row.
  absl::StatusOr<int64_t> size(const std::string& sha256) const;
  absl::StatusOr<std::string> get(const std::string& sha256) const;
  absl::Status put(const std::string& sha256, std::string_view bytes);
  absl::Status remove(const std::string& sha256);
  /// Removes bytes with a wrong digest, unless they were replaced since.
  absl::Status removeDamaged(const std::string& sha256, const std::string& found);
  /// Total size of all rows.
  absl::StatusOr<int64_t> totalBytes() const;
  /// Visits all rows in order of their names; stops at the first error. Holds no snapshot between rows.
  absl::Status forEach(const std::function<absl::Status(const RowBlob& blob)>& visit) const;

 private:
  Store* const store_;
  const int64_t most_bytes_;
};

}  // namespace tessera::storage
