#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tessera::storage {

/// How many bytes blobs take, and uploads that are not finished: those in progress as many as they announced, others
/// as many as came. Uploads go by the names of their partial files, which end in their project's (blob_store.h).
/// Thread-safe.
class Room {
 public:
  /// Keeps `bytes` for an upload, if all together stay within `most` then.
  bool reserve(const std::string& name, int64_t bytes, int64_t most);
  /// What is there of an upload; 0: nothing any more.
  void leave(const std::string& name, int64_t bytes);
  /// An upload became a blob of so many bytes; 0 where the blob was there before.
  void publish(const std::string& name, int64_t bytes);
  /// Blobs that were found, or (below 0) removed.
  void addBlobs(int64_t bytes);

  /// Of blobs and uploads.
  int64_t taken() const;
  /// Of a project's uploads, all but one.
  int64_t unfinishedOf(const std::string& project, const std::string& but_name) const;

 private:
  void lockedLeave(const std::string& name, int64_t bytes);
  int64_t lockedOf(const std::string& name) const;

  mutable std::mutex mutex_;
  int64_t blobs_ = 0;
  int64_t unfinished_ = 0;
  std::map<std::string, int64_t> by_name_;
  std::map<std::string, int64_t> by_project_;
};

}  // namespace tessera::storage
