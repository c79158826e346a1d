#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tessera::storage {

/// Accounts for the bytes of blobs and of unfinished uploads: the announced size of uploads in progress, the received
/// bytes of others. Uploads are identified by the names of their partial files, which end in the project's name
/// (blob_store.h). Thread-safe.
class SpaceAccounting {
 public:
  /// Reserves `bytes` for an upload; false if the total would exceed `most`.
  bool reserve(const std::string& name, int64_t bytes, int64_t most);
  /// Sets the bytes that an upload left; 0: none.
  void leave(const std::string& name, int64_t bytes);
  /// Converts an upload to a blob of `bytes`; 0 if the blob existed before.
  void publish(const std::string& name, int64_t bytes);
  /// Adds the bytes of blobs that were found on disk; negative: subtracts those of removed blobs.
  void addBlobs(int64_t bytes);

  /// Total of blobs and uploads.
  int64_t taken() const;
  /// Total of a project's uploads, except one.
  int64_t uploadBytesOf(const std::string& project, const std::string& but_name) const;

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
