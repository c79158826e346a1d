#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// File operations for blobs. Errors name the file and the remedy. It is an interface, so that tests can use a disk
/// that fails or loses power at any operation (testing/faulty_files.h).
namespace tessera::storage {

/// Converts errno of a failed call to a status: RESOURCE_EXHAUSTED for a full disk or a file above the process's limit,
/// NOT_FOUND for ENOENT, otherwise UNAVAILABLE.
absl::Status fileError(const char* doing, const std::string& path, int error);

/// Attributes of a file.
struct FileInfo {
  int64_t size = 0;
  uint64_t identity = 0;  ///< unique among the files that exist at one time
  int64_t modified_s = 0;
};

/// An open file, closed when destroyed.
class File {
 public:
  virtual ~File() = default;

  virtual absl::StatusOr<FileInfo> facts() const = 0;
  /// Writes all data at the offset. After an error any part of it may have been written.
  virtual absl::Status writeAt(int64_t offset, std::string_view data) = 0;
  /// Reads up to `size` bytes; fewer only at the end of the file.
  virtual absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const = 0;
  virtual absl::Status truncate(int64_t size) = 0;
  /// Makes the file durable. After an error its content on disk is unknown, and a later successful sync() does not
  /// cover earlier writes, because the kernel drops pages that it could not write. Write the file again.
  virtual absl::Status sync() = 0;
};

/// Thread-safe.
class FileSystem {
 public:
  enum class Access { kRead, kReadWriteCreate };

  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<File>> open(const std::string& path, Access access) = 0;
  virtual absl::StatusOr<FileInfo> look(const std::string& path) = 0;
  virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  /// Adds a hard link `to` on the same disk, replacing a file of that name.
  virtual absl::Status link(const std::string& from, const std::string& to) = 0;
  virtual absl::Status remove(const std::string& path) = 0;
  /// Creates the folder if it does not exist.
  virtual absl::Status makeFolder(const std::string& path) = 0;
  /// Makes creations, renames and removals of names in the folder durable.
  virtual absl::Status syncFolder(const std::string& path) = 0;
  /// Names in a folder, in any order; NOT_FOUND if it does not exist.
  virtual absl::StatusOr<std::vector<std::string>> list(const std::string& path) = 0;
  /// Free bytes on the disk of `path`.
  virtual absl::StatusOr<int64_t> freeBytes(const std::string& path) = 0;
};

/// The operating system's file system.
FileSystem& systemFiles();

/// The parent folder of a path.
std::string parentOf(const std::string& path);

}  // namespace tessera::storage
