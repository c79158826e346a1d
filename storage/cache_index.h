#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::storage {

/// The blobs of a local cache in order of their last use, and their total size. Thread-safe.
class CacheIndex {
 public:
  explicit CacheIndex(int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// Adds a blob as the most recently used one, or marks it as such.
  void add(const std::string& sha256, int64_t bytes);
  /// Marks a blob as the most recently used one, if it is in the cache.
  void touch(const std::string& sha256);
  /// Returns whether the blob was in the cache.
  bool remove(const std::string& sha256);

  /// Keeps a blob in the cache while the handle exists.
  class Pin {
   public:
    Pin(CacheIndex& index, std::string sha256);
    ~Pin();
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    CacheIndex& index_;
    const std::string sha256_;
  };

  /// Makes room for `more` further bytes: removes the least recently used blobs that are not pinned, until all bytes
  /// together are within the bound, and returns them. The caller deletes their files. A blob larger than the bound
  /// never fits, so it removes nothing that the bound does not require anyway.
  std::vector<std::string> evict(int64_t more);

  struct Stats {
    int64_t blobs = 0, bytes = 0, evictions = 0;
  };
  Stats stats() const;

 private:
  struct Entry {
    std::string sha256;
    int64_t bytes;
  };
  bool lockedRemove(const std::string& sha256);

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_name_;
  std::unordered_map<std::string, int> pins_;
  Stats stats_;
};

}  // namespace tessera::storage
