#include "workers/blob_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "proto/support/write_all.h"
#include "workers/file_descriptor.h"
#include "workers/file_digest.h"

namespace tessera::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kPartial[] = ".partial";

absl::Status mismatch(const v1::Digest& wanted, const std::string& sha256, int64_t bytes) {
  // The server hashes what it sends, so the error occurred in transfer or on this machine.
  return failureStatus(v1::Failure::WORKER_FAULT, absl::StrCat("blob ", wanted.sha256(), " of ", wanted.size_bytes(),
                                                               " bytes arrived as ", sha256, " of ", bytes, " bytes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobCache>> BlobCache::open(const std::string& folder, int64_t capacity_bytes,
                                                           SharedBlobs* shared) {
  std::unique_ptr<BlobCache> cache(new BlobCache(folder, capacity_bytes, shared));
  TESSERA_RETURN_IF_ERROR(cache->scan());
  return cache;
}

absl::Status BlobCache::scan() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return absl::ErrnoToStatus(error.value(), folder_);
  std::vector<std::pair<fs::file_time_type, Entry>> found;
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    const std::string name = file.path().filename();
    std::error_code ignored;
    if (isSha256(name) && file.is_regular_file(ignored)) {
      const auto bytes = static_cast<int64_t>(file.file_size(ignored));
      found.emplace_back(file.last_write_time(ignored), Entry{name, bytes, false});
    } else {
      // A partial download of a worker that was killed, or no file of the cache at all.
      fs::remove_all(file.path(), ignored);
    }
  }
  if (error) return absl::ErrnoToStatus(error.value(), folder_);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::lock_guard lock(mutex_);
  for (auto& [time, entry] : found) {
    stats_.bytes += entry.bytes;
    entries_.push_back(std::move(entry));
    index_[entries_.back().sha256] = std::prev(entries_.end());
  }
  evictLocked();
  return absl::OkStatus();
}

absl::Status BlobCache::provide(const v1::Digest& digest, const std::string& destination, const BlobSource& source) {
  if (!isSha256(digest.sha256())) {
    return absl::InvalidArgumentError(absl::StrCat("'", digest.sha256(), "' is not a SHA-256 in lower-case hex"));
  }
  std::unique_lock lock(mutex_);
  // Attempts that need the same blob at the same time share one download. The lock is not held meanwhile.
  arrived_.wait(lock, [&] { return !in_flight_.contains(digest.sha256()); });
  auto found = index_.find(digest.sha256());
  if (found == index_.end() || !isIntactLocked(*found->second)) {
    in_flight_.insert(digest.sha256());
    lock.unlock();
    absl::Status status = fetchVerified(digest, source);
    lock.lock();
    in_flight_.erase(digest.sha256());
    arrived_.notify_all();
    if (!status.ok()) return status;
    insertLocked(digest);
    found = index_.find(digest.sha256());
  } else {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
  }
  if (found->second->bytes != digest.size_bytes()) {
    return mismatch(digest, digest.sha256(), found->second->bytes);
  }
  const std::string path = pathOf(digest.sha256());
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // keeps the LRU order across a restart
  const int linked = link(path.c_str(), destination.c_str());
  const int error = errno;
  evictLocked();  // evict after linking, so that a blob larger than the cache still reaches its task
  return linked == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, destination);
}

// Leaves the verified blob at its path: the existing file of an earlier process, or a new one.
absl::Status BlobCache::fetchVerified(const v1::Digest& digest, const BlobSource& source) {
  const std::string path = pathOf(digest.sha256());
  // A file of an earlier process is verified before its first use.
  if (auto present = digestFile(path); present.ok() && present->sha256() == digest.sha256()) return absl::OkStatus();

  {
    const std::lock_guard lock(mutex_);
    ++stats_.misses;
    if (auto stale = index_.find(digest.sha256()); stale != index_.end()) removeLocked(stale->second);
  }
  if (shared_ && shared_->take(digest.sha256(), path)) {
    if (auto linked = digestFile(path); linked.ok() && linked->sha256() == digest.sha256()) return absl::OkStatus();
    unlink(path.c_str());  // Damaged on the server's disk. The download below makes the server detect this, too.
  }
  const std::string partial = path + kPartial;
  absl::Cleanup remove = [&] { unlink(partial.c_str()); };
  const FileDescriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return absl::ErrnoToStatus(errno, partial);
  Sha256 hash;
  int64_t total = 0;
  absl::Status status = source(digest, [&](std::string_view bytes) {
    total += static_cast<int64_t>(bytes.size());
    // Ends the transfer early: an endless one would fill the disk.
    if (total > digest.size_bytes()) return mismatch(digest, "more", total);
    hash.update(bytes);
    return writeAll(file.get(), bytes) ? absl::OkStatus() : absl::ErrnoToStatus(errno, partial);
  });
  if (!status.ok()) return status;
  const std::string sha256 = hash.finish();
  if (total != digest.size_bytes() || sha256 != digest.sha256()) return mismatch(digest, sha256, total);
  // Attempts get hard links to this file, so tasks must not be able to write it. It gets its name when it is complete.
  if (fchmod(file.get(), 0400) != 0 || rename(partial.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  return absl::OkStatus();
}

void BlobCache::add(const v1::Digest& digest, const std::string& file) {
  const std::lock_guard lock(mutex_);
  if (digest.size_bytes() > capacity_ || index_.contains(digest.sha256()) || in_flight_.contains(digest.sha256()))
    return;
  // Best effort: if it fails, the blob is fetched when it is needed.
  const std::string path = pathOf(digest.sha256());
  const bool linked = shared_ && shared_->take(digest.sha256(), path);
  if (!linked && (chmod(file.c_str(), 0400) != 0 || link(file.c_str(), path.c_str()) != 0)) return;
  std::error_code ignored;
  insertLocked(digest);
  // The server may have the bytes in another file. That file is then linked here, and must be verified before use.
  entries_.front().verified = !linked || fs::equivalent(file, path, ignored);
  evictLocked();
}

BlobCache::Stats BlobCache::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.blobs = static_cast<int64_t>(entries_.size());
  return stats;
}

bool BlobCache::isIntactLocked(Entry& entry) const {
  if (entry.linked && !shared_->isServersFile(entry.sha256, pathOf(entry.sha256))) entry.verified = false;
  return entry.verified;
}

void BlobCache::insertLocked(const v1::Digest& digest) {
  const bool linked = shared_ && shared_->isServersFile(digest.sha256(), pathOf(digest.sha256()));
  if (auto found = index_.find(digest.sha256()); found != index_.end()) {
    found->second->verified = true;
    found->second->linked = linked;
    entries_.splice(entries_.begin(), entries_, found->second);
    return;
  }
  entries_.push_front({digest.sha256(), digest.size_bytes(), true, linked});
  index_[digest.sha256()] = entries_.begin();
  stats_.bytes += digest.size_bytes();
}

void BlobCache::removeLocked(Entries::iterator entry) {
  unlink(pathOf(entry->sha256).c_str());
  stats_.bytes -= entry->bytes;
  index_.erase(entry->sha256);
  entries_.erase(entry);
}

void BlobCache::evictLocked() {
  for (auto entry = entries_.end(); stats_.bytes > capacity_ && entry != entries_.begin();) {
    --entry;
    if (in_flight_.contains(entry->sha256)) continue;
    const auto victim = entry++;
    removeLocked(victim);
    ++stats_.evictions;
  }
}

}  // namespace tessera::worker
