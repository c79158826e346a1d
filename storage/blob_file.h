#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Files by descriptor, with errors that name the file and what to do.
namespace tessera::storage {

/// The errno of a failed call as a status: RESOURCE_EXHAUSTED for a full disk or a file over the process's
/// limit, NOT_FOUND for ENOENT, else UNAVAILABLE.
absl::Status fileError(const char* doing, const std::string& path, int error);

/// An open file, closed when destroyed.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// `flags` as for open(2); close-on-exec is always set, for the server starts other programs.
  static absl::StatusOr<File> open(const std::string& path, int flags);

  absl::StatusOr<int64_t> size() const;
  /// Writes everything at the offset.
  absl::Status writeAt(int64_t offset, std::string_view data);
  /// Up to `size` bytes; fewer only at the end of the file.
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const;
  absl::Status truncate(int64_t size);
  /// Durable when OK; for a folder, the names in it are.
  absl::Status sync();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string path_;
};

absl::Status syncFolder(const std::string& path);
/// Makes a folder unless it is there.
absl::Status makeFolder(const std::string& path);

}  // namespace tessera::storage
