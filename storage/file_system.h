#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// What blobs stand on: files by name, with errors that name the file and what to do. An interface, so that a test
/// can put a disk underneath that fails or loses power at any operation (testing/faulty_files.h).
namespace tessera::storage {

/// The errno of a failed call as a status: RESOURCE_EXHAUSTED for a full disk or a file over the process's
/// limit, NOT_FOUND for ENOENT, else UNAVAILABLE.
absl::Status fileError(const char* doing, const std::string& path, int error);

/// What a name stands for.
struct FileFacts {
  int64_t size = 0;
  uint64_t identity = 0;  ///< differs from every other file's that is there at the same time
  int64_t modified_s = 0;
};

/// An open file, closed when destroyed.
class File {
 public:
  virtual ~File() = default;

  virtual absl::StatusOr<FileFacts> facts() const = 0;
  /// Writes everything at the offset. After an error any part of it may be there.
  virtual absl::Status writeAt(int64_t offset, std::string_view data) = 0;
  /// Up to `size` bytes; fewer only at the end of the file.
  virtual absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const = 0;
  virtual absl::Status truncate(int64_t size) = 0;
  /// Durable when OK. After an error nobody knows what is on the disk, and a later sync() that succeeds says nothing
  /// about what was written before: the kernel drops pages it could not write. Write the file again.
  virtual absl::Status sync() = 0;
};

/// Thread-safe.
class FileSystem {
 public:
  enum class Access { kRead, kReadWriteCreate };

  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<File>> open(const std::string& path, Access access) = 0;
  virtual absl::StatusOr<FileFacts> look(const std::string& path) = 0;
  virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  /// Another name for a file, on the same disk. What had the name `to` loses it.
  virtual absl::Status link(const std::string& from, const std::string& to) = 0;
  virtual absl::Status remove(const std::string& path) = 0;
  /// Makes a folder unless it is there.
  virtual absl::Status makeFolder(const std::string& path) = 0;
  /// The names in it become durable: what was made, renamed or removed there.
  virtual absl::Status syncFolder(const std::string& path) = 0;
  /// The names in a folder, in any order; NOT_FOUND when it is absent.
  virtual absl::StatusOr<std::vector<std::string>> list(const std::string& path) = 0;
  /// Bytes that may still be written where `path` lies.
  virtual absl::StatusOr<int64_t> freeBytes(const std::string& path) = 0;
};

/// The operating system's.
FileSystem& systemFiles();

/// The folder a path lies in.
std::string parentOf(const std::string& path);

}  // namespace tessera::storage
