#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::storage {

/// Blobs with their sizes, each forgotten after a while. Thread-safe.
class RecentBlobs {
 public:
  explicit RecentBlobs(std::chrono::steady_clock::duration lifetime) : lifetime_(lifetime) {}

  void add(const std::string& sha256, int64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    blobs_.insert_or_assign(sha256, Entry{bytes, now + lifetime_});
    if (blobs_.size() < sweep_at_) return;
    std::erase_if(blobs_, [&](const auto& blob) { return blob.second.until <= now; });
    sweep_at_ = 2 * blobs_.size() + kFew;
  }
  void remove(const std::string& sha256) {
    const std::lock_guard lock(mutex_);
    blobs_.erase(sha256);
  }
  /// The size of a blob that was added and not forgotten.
  std::optional<int64_t> find(const std::string& sha256) const {
    const std::lock_guard lock(mutex_);
    const auto found = blobs_.find(sha256);
    if (found == blobs_.end() || found->second.until <= std::chrono::steady_clock::now()) return std::nullopt;
    return found->second.bytes;
  }
  bool has(const std::string& sha256) const { return find(sha256).has_value(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const std::lock_guard lock(mutex_);
    for (const auto& [sha256, entry] : blobs_) names.push_back(sha256);
    return names;
  }

 private:
  static constexpr size_t kFew = 1024;
  struct Entry {
    int64_t bytes;
    std::chrono::steady_clock::time_point until;
  };

  const std::chrono::steady_clock::duration lifetime_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> blobs_;
  size_t sweep_at_ = kFew;
};

/// Number of uploads in progress of each blob. Thread-safe.
class UploadCounts {
 public:
  class Counted {
   public:
    Counted(UploadCounts& counts, std::string sha256) : counts_(counts), sha256_(std::move(sha256)) {
      const std::lock_guard lock(counts_.mutex_);
      ++counts_.counts_[sha256_];
    }
    ~Counted() {
      const std::lock_guard lock(counts_.mutex_);
      const auto count = counts_.counts_.find(sha256_);
      if (--count->second == 0) counts_.counts_.erase(count);
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    UploadCounts& counts_;
    const std::string sha256_;
  };
  bool any(const std::string& sha256) const {
    const std::lock_guard lock(mutex_);
    return counts_.contains(sha256);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace tessera::storage
