#include "storage/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::storage {
namespace {

FileInfo factsOf(const struct stat& status) {
  return {int64_t{status.st_size}, uint64_t{status.st_ino}, int64_t{status.st_mtime}};
}

constexpr int64_t kStretch = int64_t{32} << 20;

class SystemFile : public File {
 public:
  SystemFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;
  ~SystemFile() override { close(descriptor_); }

  absl::StatusOr<FileInfo> facts() const override {
    struct stat status{};
    if (fstat(descriptor_, &status) != 0) return fileError("look at", path_, errno);
    return factsOf(status);
  }

  absl::Status writeAt(int64_t offset, std::string_view data) override {
    const int64_t begun = offset / kStretch;
    while (!data.empty()) {
      const ssize_t written = pwrite(descriptor_, data.data(), data.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fileError("write", path_, errno);
      data.remove_prefix(static_cast<size_t>(written));
      offset += written;
    }
    // Start writing to disk while more data arrives, so that a later sync() has less to wait for. sync() reports any
    // error.
    const int64_t whole = offset / kStretch - begun;
    if (whole > 0) (void)sync_file_range(descriptor_, begun * kStretch, whole * kStretch, SYNC_FILE_RANGE_WRITE);
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
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

  absl::Status truncate(int64_t size) override {
    return ftruncate(descriptor_, size) == 0 ? absl::OkStatus() : fileError("shorten", path_, errno);
  }
  absl::Status sync() override { return fsync(descriptor_) == 0 ? absl::OkStatus() : fileError("sync", path_, errno); }

 private:
  const int descriptor_;
  const std::string path_;
};

class SystemFiles : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> open(const std::string& path, Access access) override {
    return openWith(path, access == Access::kRead ? O_RDONLY : O_RDWR | O_CREAT);
  }

  absl::StatusOr<FileInfo> look(const std::string& path) override {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return fileError("look at", path, errno);
    return factsOf(status);
  }

  absl::Status rename(const std::string& from, const std::string& to) override {
    return std::rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : fileError("rename to", to, errno);
  }
  absl::Status link(const std::string& from, const std::string& to) override {
    if (unlink(to.c_str()) != 0 && errno != ENOENT) return fileError("remove", to, errno);
    return ::link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : fileError("link", from, errno);
  }
  absl::Status remove(const std::string& path) override {
    return unlink(path.c_str()) == 0 ? absl::OkStatus() : fileError("remove", path, errno);
  }
  absl::Status makeFolder(const std::string& path) override {
    return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? absl::OkStatus() : fileError("make", path, errno);
  }
  absl::Status syncFolder(const std::string& path) override {
    absl::StatusOr<std::unique_ptr<File>> folder = openWith(path, O_RDONLY | O_DIRECTORY);
    return folder.ok() ? (*folder)->sync() : folder.status();
  }

  absl::StatusOr<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return fileError("list", path, error.value());
    return names;
  }

  absl::StatusOr<int64_t> freeBytes(const std::string& path) override {
    struct statvfs status{};
    if (statvfs(path.c_str(), &status) != 0) return fileError("look at the free space of", path, errno);
    return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  }

 private:
  /// Sets close-on-exec, because the server starts other programs.
  static absl::StatusOr<std::unique_ptr<File>> openWith(const std::string& path, int flags) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0640);
    if (descriptor < 0) return fileError("open", path, errno);
    return std::make_unique<SystemFile>(descriptor, path);
  }
};

}  // namespace

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

FileSystem& systemFiles() {
  static SystemFiles files;
  return files;
}

std::string parentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace tessera::storage
