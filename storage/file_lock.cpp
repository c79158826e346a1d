#include "storage/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::storage {

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::take(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", strerror(errno), "; check that the folder exists and is writable"));
  }
  std::unique_ptr<FileLock> lock(new FileLock(file));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    const std::string holder = absl::StrCat(getpid(), "\n");
    if (ftruncate(file, 0) != 0 || pwrite(file, holder.data(), holder.size(), 0) < 0) {
      // Only the other process's error message lacks the holder then.
    }
    return lock;
  }
  char holder[16] = {};
  if (pread(file, holder, sizeof holder - 1, 0) <= 0) holder[0] = '\0';
  return absl::FailedPreconditionError(absl::StrCat(path, ": the database is in use by process ",
                                                    std::string(holder, strcspn(holder, "\n")),
                                                    "; stop that server or give this one another data folder"));
}

FileLock::~FileLock() { close(file_); }

}  // namespace tessera::storage
