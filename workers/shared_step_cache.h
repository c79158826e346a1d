#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "workers/file_descriptor.h"

/// Cache of results of compiler steps (compiler/step_cache/step_cache.h), shared by the attempts on a worker. It is a
/// memory file that each task process of a project maps, so a lookup needs no call. Only the worker writes to it; the
/// file is sealed against writes by others. A result that is modified or incomplete when it is read, or stored under a
/// wrong key, is ignored.
namespace tessera::worker {

/// The cache of one project. It has two halves. Results are added to the younger half; when that is full, the older
/// half is cleared and becomes the younger. Tasks add results again that they find in the older half, so results in use
/// are kept. Thread-safe.
class SharedStepCache {
 public:
  /// `bytes` in total; memory is allocated as it is used.
  static absl::StatusOr<std::unique_ptr<SharedStepCache>> create(size_t bytes);
  ~SharedStepCache();
  SharedStepCache(const SharedStepCache&) = delete;
  SharedStepCache& operator=(const SharedStepCache&) = delete;

  /// Read-only descriptor for task processes.
  int descriptor() const { return file_.get(); }

  /// Adds a result under `key`, a SHA-256 of 64 digits. No effect if the younger half contains the key, or if the
  /// result is larger than an eighth of a half.
  void add(std::string_view key, std::string_view result);

 private:
  SharedStepCache() = default;

  FileDescriptor file_;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  std::mutex mutex_;
};

/// Access to the cache from a task process.
class SharedStepCacheReader {
 public:
  /// Maps the file of the descriptor; null if it is not open or is not such a file.
  static std::unique_ptr<SharedStepCacheReader> open(int descriptor);
  ~SharedStepCacheReader();
  SharedStepCacheReader(const SharedStepCacheReader&) = delete;
  SharedStepCacheReader& operator=(const SharedStepCacheReader&) = delete;

  struct Found {
    std::string result;
    bool older = false;  ///< found in the older half; add it again
  };
  std::optional<Found> find(std::string_view key) const;

 private:
  SharedStepCacheReader(const char* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  const char* const memory_;
  const size_t bytes_;
};

/// The caches of the projects that used this worker last. Thread-safe.
class ProjectStepCaches {
 public:
  /// `bytes` in total; 0: no cache.
  explicit ProjectStepCaches(size_t bytes) : bytes_(bytes) {}

  /// Returns the cache of a project; null without a project, without memory, or if the kernel has no sealed files.
  std::shared_ptr<SharedStepCache> of(const std::string& project);

 private:
  static constexpr size_t kMaxProjects = 8;

  const size_t bytes_;
  std::mutex mutex_;
  int64_t asked_ = 0;
  struct Project {
    std::shared_ptr<SharedStepCache> steps;
    int64_t asked = 0;
  };
  std::map<std::string, Project> projects_;
};

/// Encodes a result with its key. A task returns a concatenation of these.
std::string encodeStep(std::string_view key, std::string_view result);
/// Adds all encoded results; stops at the first malformed one.
void addEncoded(SharedStepCache& steps, std::string_view encoded);

}  // namespace tessera::worker
