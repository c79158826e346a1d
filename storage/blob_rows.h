#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/store.h"

namespace tessera::storage {

/// Where the bytes of small blobs lie: rows of the database. A row is durable when the transaction is that put it,
/// which may be one that does more (Store::transact): then all of it costs one sync. Thread-safe.
class BlobRows {
 public:
  /// `store` may be null: then there are none. Blobs of up to `most_bytes` are put here.
  BlobRows(Store* store, int64_t most_bytes) : store_(store), most_bytes_(most_bytes) {}

  bool takes(int64_t bytes) const { return store_ != nullptr && bytes <= most_bytes_; }

  /// NOT_FOUND where the blob's bytes are no row.
  absl::StatusOr<int64_t> size(const std::string& sha256) const;
  absl::StatusOr<std::string> get(const std::string& sha256) const;
  absl::Status put(const std::string& sha256, std::string_view bytes);
  absl::Status remove(const std::string& sha256);
  /// Removes those that are not the blob's, unless somebody has put others meanwhile.
  absl::Status removeDamaged(const std::string& sha256, const std::string& found);
  /// Of all of them together.
  absl::StatusOr<int64_t> totalBytes() const;
  /// Calls `visit` for every one, by name; ends with the first error it answers. No read is held meanwhile.
  absl::Status forEach(const std::function<absl::Status(const RowBlob& blob)>& visit) const;

 private:
  Store* const store_;
  const int64_t most_bytes_;
};

}  // namespace tessera::storage
