#include "clients/cpp/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tessera::client {

namespace fs = std::filesystem;

std::optional<std::string> readSmallFile(const std::string& path, int64_t most_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // the path may be a pipe without a writer
  if (file < 0) return std::nullopt;
  const absl::Cleanup close = [file] { ::close(file); };
  struct stat facts{};
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > most_bytes) return std::nullopt;
  std::string bytes(static_cast<size_t>(facts.st_size), '\0');
  const ssize_t got = pread(file, bytes.data(), bytes.size(), 0);
  if (got != facts.st_size) return std::nullopt;  // the file is being written
  return bytes;
}

absl::Status fileError(int error, const std::string& what) {
  switch (error) {
    case ESPIPE:
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": it is a pipe, which can be read only once; save it as a file"));
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
      return absl::InvalidArgumentError(absl::StrCat(what, ": ", std::strerror(error)));
    default:
      return absl::ErrnoToStatus(error, what);
  }
}

std::string resolveLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel's limit
  fs::path file = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(file, error)); ++i) {
    const fs::path next = fs::read_symlink(file, error);
    if (error) break;
    file = next.is_absolute() ? next : file.parent_path() / next;
  }
  return file.string();
}

absl::Status checkOutputPath(const std::string& path, bool regular) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  const std::string what = absl::StrCat("cannot write ", path);
  if (path == "-") {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": this makes files, and writes none to standard output; name one (./- for a file of this name)"));
  }
  if (fs::is_directory(there)) return absl::InvalidArgumentError(absl::StrCat(what, ": it is a folder; name a file"));
  if (fs::exists(there)) {
    if (regular && !fs::is_regular_file(there))
      return absl::InvalidArgumentError(absl::StrCat(what, ": it is not a regular file, and would be replaced by one"));
    if (!regular) return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : fileError(errno, what);
  }
  const fs::path file = resolveLinks(path);
  if (fs::is_symlink(fs::symlink_status(file, error))) return fileError(ELOOP, what);
  const fs::path parent = file.parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
  if (!fs::exists(folder, error))
    return absl::NotFoundError(absl::StrCat(what, ": there is no folder ", folder.string()));
  if (!fs::is_directory(folder, error))
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", folder.string(), " is no folder"));
  return access(folder.c_str(), W_OK) == 0 ? absl::OkStatus() : fileError(errno, what);
}

}  // namespace tessera::client
