#include "storage/cache_index.h"

#include <utility>

namespace tessera::storage {

CacheIndex::Pin::Pin(CacheIndex& index, std::string sha256) : index_(index), sha256_(std::move(sha256)) {
  const std::lock_guard lock(index_.mutex_);
  ++index_.pins_[sha256_];
}

CacheIndex::Pin::~Pin() {
  const std::lock_guard lock(index_.mutex_);
  const auto pin = index_.pins_.find(sha256_);
  if (--pin->second == 0) index_.pins_.erase(pin);
}

void CacheIndex::add(const std::string& sha256, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  lockedRemove(sha256);
  entries_.push_front({sha256, bytes});
  by_name_[sha256] = entries_.begin();
  stats_.bytes += bytes;
  ++stats_.blobs;
}

void CacheIndex::touch(const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_name_.find(sha256); found != by_name_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
  }
}

bool CacheIndex::remove(const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  return lockedRemove(sha256);
}

std::vector<std::string> CacheIndex::evict(int64_t more) {
  std::vector<std::string> victims;
  if (more > most_bytes_) more = 0;  // it does not fit anyway
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.end(); entry != entries_.begin() && stats_.bytes + more > most_bytes_;) {
    --entry;
    if (pins_.contains(entry->sha256)) continue;
    victims.push_back(entry->sha256);
    const std::string sha256 = entry->sha256;
    ++entry;
    lockedRemove(sha256);
    ++stats_.evictions;
  }
  return victims;
}

CacheIndex::Stats CacheIndex::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool CacheIndex::lockedRemove(const std::string& sha256) {
  const auto found = by_name_.find(sha256);
  if (found == by_name_.end()) return false;
  stats_.bytes -= found->second->bytes;
  --stats_.blobs;
  entries_.erase(found->second);
  by_name_.erase(found);
  return true;
}

}  // namespace tessera::storage
