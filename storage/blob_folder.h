#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/blob_store.h"

namespace tessera::storage {

/// Where blobs lie, and the steps that make a new one durable. Thread-safe.
class BlobFolder {
 public:
  static absl::StatusOr<std::unique_ptr<BlobFolder>> open(const std::string& root, const BlobStoreOptions& options);

  std::string blobPath(const std::string& sha256) const;
  std::string partialPath(const std::string& name) const { return root_ + "/tmp/" + name; }

  /// Bytes of the blob; NOT_FOUND when it is absent.
  absl::StatusOr<int64_t> blobSize(const std::string& sha256) const;

  /// Renames a synced partial file to its blob; durable when OK.
  absl::Status publish(const std::string& partial_name, const std::string& sha256);

  /// Moves a damaged blob away, provided the name still stands for the file open as `descriptor`:
  /// a sound copy may have been uploaded meanwhile.
  absl::Status setAside(const std::string& sha256, int descriptor);

 private:
  explicit BlobFolder(const std::string& root) : root_(root), durable_(65536, false) {}
  absl::Status ensureFolder(const std::string& sha256);
  absl::Status removeStalePartials(const BlobStoreOptions& options) const;

  const std::string root_;
  std::mutex mutex_;
  /// Of each two-byte prefix: whether its folder is known to be on disk.
  std::vector<bool> durable_;
  int set_aside_ = 0;
};

}  // namespace tessera::storage
