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

/// Folders of attempts that ended, empty and as they were made: to make and remove four of them costs as much as all
/// else that a small task has of its disk. Removed with this object. Thread-safe.
class SpareFolders {
 public:
  ~SpareFolders();
  /// Empties the folder at `path` and keeps it; removes it where a task left it as another than it was made.
  void take(const std::string& path);
  /// A folder to use, if there is one.
  std::optional<std::string> give();

 private:
  std::mutex mutex_;
  std::vector<std::string> paths_;
};

/// The folder of one attempt: in/ (blobs by digest), out/ (files the task makes), tmp/, task.pb and
/// result.pb. All that is in it is removed when this object goes.
class AttemptFolder {
 public:
  AttemptFolder(std::string path, std::shared_ptr<SpareFolders> spare)
      : path_(std::move(path)), spare_(std::move(spare)) {}
  ~AttemptFolder();
  AttemptFolder(AttemptFolder&& other) noexcept : path_(std::move(other.path_)), spare_(std::move(other.spare_)) {
    other.path_.clear();
  }
  AttemptFolder& operator=(AttemptFolder&&) = delete;

  const std::string& path() const { return path_; }
  std::string input(const std::string& sha256) const { return path_ + "/in/" + sha256; }
  std::string output(const std::string& name) const { return path_ + "/out/" + name; }

  /// Lets another user, under whom a task runs, read its inputs and write the rest.
  absl::Status giveTo(int64_t uid, int64_t gid) const;
  /// Makes what that user wrote this process's: later tasks of the user may see it among their inputs.
  absl::Status takeBack() const;

 private:
  std::string path_;
  std::shared_ptr<SpareFolders> spare_;
};

/// The folder a worker owns: <root>/attempts/N and <root>/cache, on one file system. Thread-safe.
class Scratch {
 public:
  /// Opens it, made when absent, and removes what attempts of an earlier process left. FAILED_PRECONDITION
  /// when another worker uses it.
  static absl::StatusOr<std::unique_ptr<Scratch>> open(const std::string& root);

  absl::StatusOr<AttemptFolder> newAttempt();
  std::string cacheFolder() const { return root_ + "/cache"; }
  std::string attemptsFolder() const { return root_ + "/attempts"; }

 private:
  explicit Scratch(std::string root) : root_(std::move(root)) {}

  const std::string root_;
  FileDescriptor lock_;
  std::atomic<int64_t> next_{1};
  const std::shared_ptr<SpareFolders> spare_ = std::make_shared<SpareFolders>();
};

}  // namespace tessera::worker
