#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"
#include "workers/shared_blobs.h"

namespace tessera::worker {

/// Consumes a blob's bytes in order.
using ByteSink = std::function<absl::Status(std::string_view bytes)>;
/// Produces a blob's bytes, for example from the server.
using BlobSource = std::function<absl::Status(const v1::Digest& digest, const ByteSink& sink)>;

/// A size-bounded LRU cache of blobs as read-only files, named by digest. A blob is verified when it enters, and again
/// at its first use after a restart. A blob that is a link to the server's file is also verified again when the server
/// no longer has that file, since the server may have found it damaged. Tasks get hard links, so evicting a blob does
/// not affect a task that reads it. Thread-safe; a blob that two tasks need at once is fetched once.
class BlobCache {
 public:
  /// Opens the cache in `folder`, and creates it if absent. Other files in it are deleted. Blobs in `shared` are linked
  /// rather than fetched; it must outlive the cache.
  static absl::StatusOr<std::unique_ptr<BlobCache>> open(const std::string& folder, int64_t capacity_bytes,
                                                         SharedBlobs* shared = nullptr);

  /// Makes the blob available as the new file `destination` on the same file system, fetching it if needed. DATA_LOSS
  /// if the received bytes do not match the digest.
  absl::Status provide(const v1::Digest& digest, const std::string& destination, const BlobSource& source);

  /// Adds a file whose digest was just computed, for example an output that another task will read.
  void add(const v1::Digest& digest, const std::string& file);

  struct Stats {
    int64_t bytes = 0;
    int64_t blobs = 0;
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t evictions = 0;
  };
  Stats stats() const;

 private:
  struct Entry {
    std::string sha256;
    int64_t bytes;
    bool verified;
    bool linked = false;  ///< a link to the server's file
  };
  using Entries = std::list<Entry>;  // most recently used first

  BlobCache(std::string folder, int64_t capacity_bytes, SharedBlobs* shared)
      : folder_(std::move(folder)), capacity_(capacity_bytes), shared_(shared) {}

  absl::Status scan();
  std::string pathOf(const std::string& sha256) const { return folder_ + "/" + sha256; }
  absl::Status fetchVerified(const v1::Digest& digest, const BlobSource& source);
  void insertLocked(const v1::Digest& digest);
  bool isIntactLocked(Entry& entry) const;
  void removeLocked(Entries::iterator entry);
  void evictLocked();

  const std::string folder_;
  const int64_t capacity_;
  SharedBlobs* const shared_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::set<std::string> in_flight_;  // digests being fetched or verified by a thread
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> index_;
  Stats stats_;
};

}  // namespace tessera::worker
