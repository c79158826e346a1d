#include "storage/blob_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::storage {

absl::Status fileError(const char* doing, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", doing, " ", path, ": ", strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message + "; free some space and retry");
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::FailedPreconditionError(message + "; check the folder's permissions");
    default:
      return absl::UnavailableError(message);
  }
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<File> File::open(const std::string& path, int flags) {
  File file;
  file.descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0640);
  if (file.descriptor_ < 0) return fileError("open", path, errno);
  file.path_ = path;
  return file;
}

absl::StatusOr<int64_t> File::size() const {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0) return fileError("look at", path_, errno);
  return int64_t{status.st_size};
}

absl::Status File::writeAt(int64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = pwrite(descriptor_, data.data(), data.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fileError("write", path_, errno);
    data.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> File::readAt(int64_t offset, char* data, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(descriptor_, data + done, size - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fileError("read", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

absl::Status File::truncate(int64_t size) {
  return ftruncate(descriptor_, size) == 0 ? absl::OkStatus() : fileError("shorten", path_, errno);
}

absl::Status File::sync() { return fsync(descriptor_) == 0 ? absl::OkStatus() : fileError("sync", path_, errno); }

absl::Status syncFolder(const std::string& path) {
  absl::StatusOr<File> folder = File::open(path, O_RDONLY | O_DIRECTORY);
  return folder.ok() ? folder->sync() : folder.status();
}

absl::Status makeFolder(const std::string& path) {
  return mkdir(path.c_str(), 0750) == 0 || errno == EEXIST ? absl::OkStatus() : fileError("make", path, errno);
}

}  // namespace tessera::storage
