#include "workers/self_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {
namespace {

// How long a successful test is valid. There may be hundreds of lease requests per second, and on file systems that do
// not reuse freed space immediately (ext4 without a journal) each test would be slower than the last.
constexpr std::chrono::seconds kMadeForLong(1);

std::string failed(const char* doing, const std::string& path) {
  return absl::StrCat("cannot ", doing, " ", path, ": ", strerror(errno));
}

// Creates a folder with a file of one block, like a small attempt.
std::string triedFolder(const std::string& attempts) {
  const std::string folder = absl::StrCat(attempts, "/self-check-", gettid());
  const std::string path = folder + "/file";
  if (mkdir(folder.c_str(), 0700) != 0) return failed("make", folder);
  const absl::Cleanup remove = [&] {
    unlink(path.c_str());
    rmdir(folder.c_str());
  };
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return failed("make", path);
  const char block[4096] = {};
  errno = ENOSPC;  // reported after a short write
  return write(file.get(), block, sizeof(block)) == sizeof(block) ? "" : failed("write", path);
}

}  // namespace

std::string SelfCheck::trouble() {
  struct statvfs disk{};
  if (statvfs(attempts_folder_.c_str(), &disk) != 0) return failed("look at", attempts_folder_);
  const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (free < min_free_bytes_) {
    return absl::StrCat("the disk of ", attempts_folder_, " has ", free >> 20, " MiB left, a task may need ",
                        min_free_bytes_ >> 20, " (--min-free)");
  }
  if (access(task_binary_.c_str(), X_OK) != 0) return failed("execute", task_binary_);
  const Clock::time_point now = Clock::now(), made = folder_made_;
  if (made != Clock::time_point::min() && now - made < kMadeForLong) return "";
  std::string trouble = triedFolder(attempts_folder_);
  folder_made_ = trouble.empty() ? now : Clock::time_point::min();
  return trouble;
}

}  // namespace tessera::worker
