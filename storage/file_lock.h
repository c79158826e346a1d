#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::storage {

/// Exclusive lock on a file, held until destruction. The file contains the number of the process that holds it.
class FileLock {
 public:
  /// Creates the file if it is absent. FAILED_PRECONDITION if another process holds the lock.
  static absl::StatusOr<std::unique_ptr<FileLock>> take(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_;
};

}  // namespace tessera::storage
