#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

/// Pool of empty folders of finished attempts. Creating and deleting the four folders of an attempt costs as much as
/// all other disk operations of a small task. The folders are deleted with this object. Thread-safe.
class FolderPool {
 public:
  ~FolderPool();
  /// Adds the folder at `path` to the pool, emptied. If a task changed its structure or permissions, deletes it
  /// instead.
  void recycle(const std::string& path);
  /// Removes a folder from the pool and returns its path; nothing if the pool is empty.
  std::optional<std::string> acquire();

 private:
  std::mutex mutex_;
  std::vector<std::string> paths_;
};

/// The folder of one attempt: in/ (blobs by digest), out/ (files that the task writes), tmp/, task.pb and result.pb.
/// Its content is deleted with this object.
class AttemptFolder {
 public:
  AttemptFolder(std::string path, std::shared_ptr<FolderPool> spare)
      : path_(std::move(path)), spare_(std::move(spare)) {}
  ~AttemptFolder();
  AttemptFolder(AttemptFolder&& other) noexcept : path_(std::move(other.path_)), spare_(std::move(other.spare_)) {
    other.path_.clear();
  }
  AttemptFolder& operator=(AttemptFolder&&) = delete;

  const std::string& path() const { return path_; }
  std::string input(const std::string& sha256) const { return path_ + "/in/" + sha256; }
  std::string output(const std::string& name) const { return path_ + "/out/" + name; }

  /// Gives the folder to another user, under whom a task runs: inputs readable, the rest writable.
  absl::Status giveTo(int64_t uid, int64_t gid) const;
  /// Takes ownership of the files that this user wrote, since later tasks of the same user may get them as inputs.
  absl::Status takeBack() const;

 private:
  std::string path_;
  std::shared_ptr<FolderPool> spare_;
};

/// The scratch folder of a worker: <root>/attempts/N and <root>/cache, on one file system. Thread-safe.
class Scratch {
 public:
  /// Opens the folder, creates it if absent, and deletes attempts of an earlier process. FAILED_PRECONDITION if another
  /// worker uses it.
  static absl::StatusOr<std::unique_ptr<Scratch>> open(const std::string& root);

  absl::StatusOr<AttemptFolder> newAttempt();
  std::string cacheFolder() const { return root_ + "/cache"; }
  std::string attemptsFolder() const { return root_ + "/attempts"; }

 private:
  explicit Scratch(std::string root) : root_(std::move(root)) {}

  const std::string root_;
  FileDescriptor lock_;
  std::atomic<int64_t> next_{1};
  const std::shared_ptr<FolderPool> spare_ = std::make_shared<FolderPool>();
};

}  // namespace tessera::worker
