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

/// Takes a blob's bytes in order.
using ByteSink = std::function<absl::Status(std::string_view bytes)>;
/// Produces a blob's bytes, e.g. from the server.
using BlobSource = std::function<absl::Status(const v1::Digest& digest, const ByteSink& sink)>;

/// Blobs this worker has seen, as read-only files by digest, bounded in size, least recently used first
/// out. Every blob is verified when it enters, and once more after a restart, before it is used again; one that is the
/// server's own file also when the server has that file no longer: it may have found its bytes lost.
/// Tasks get hard links: evicting a blob does not disturb a task that reads it. Thread-safe; a blob wanted
/// by two tasks at once is fetched once.
class BlobCache {
 public:
  /// Opens the cache below `folder`, made when absent. Files that are not blobs are removed. What is in `shared` is
  /// linked rather than fetched; it must outlive the cache.
  static absl::StatusOr<std::unique_ptr<BlobCache>> open(const std::string& folder, int64_t capacity_bytes,
                                                         SharedBlobs* shared = nullptr);

  /// Makes the blob available as the file `destination` (on the same file system, not yet existing),
  /// fetching it when it is not here. DATA_LOSS when what came does not match the digest.
  absl::Status provide(const v1::Digest& digest, const std::string& destination, const BlobSource& source);

  /// Takes in a file whose digest was computed just now, e.g. a task's output that another task will read.
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
    bool linked = false;  ///< is the server's own file
  };
  using Entries = std::list<Entry>;  // most recently used first

  BlobCache(std::string folder, int64_t capacity_bytes, SharedBlobs* shared)
      : folder_(std::move(folder)), capacity_(capacity_bytes), shared_(shared) {}

  absl::Status scan();
  std::string pathOf(const std::string& sha256) const { return folder_ + "/" + sha256; }
  absl::Status bring(const v1::Digest& digest, const BlobSource& source);
  void insertLocked(const v1::Digest& digest);
  bool isSoundLocked(Entry& entry) const;
  void removeLocked(Entries::iterator entry);
  void evictLocked();

  const std::string folder_;
  const int64_t capacity_;
  SharedBlobs* const shared_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::set<std::string> in_flight_;  // digests that some thread fetches or verifies now
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> index_;
  Stats stats_;
};

}  // namespace tessera::worker
