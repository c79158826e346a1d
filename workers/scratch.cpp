#include "workers/scratch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/support/private_folder.h"

namespace tessera::worker {

namespace fs = std::filesystem;

namespace {

constexpr const char* kParts[] = {"", "/in", "/out", "/tmp"};

// Whether the folder is unchanged: not a link, and with the original owner and permissions.
bool isAsMade(const std::string& folder) {
  struct stat facts{};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & 07777) == 0700;
}

// Empties an attempt's folder. True if only its own, unchanged and empty folders remain. No process of the attempt is
// running.
bool emptied(const std::string& path) {
  for (const char* part : kParts) {
    if (!isAsMade(path + part)) return false;
  }
  for (const char* part : kParts) {
    std::error_code error;
    fs::directory_iterator each(path + part, error);
    while (!error && each != fs::directory_iterator()) {
      const fs::path name = each->path().filename();
      const bool own = *part == '\0' && (name == "in" || name == "out" || name == "tmp");
      if (!own) fs::remove_all(each->path(), error);
      if (!error) each.increment(error);
    }
    if (error) return false;
  }
  return true;
}

}  // namespace

FolderPool::~FolderPool() {
  std::error_code ignored;
  for (const std::string& path : paths_) fs::remove_all(path, ignored);
}

void FolderPool::recycle(const std::string& path) {
  std::error_code ignored;  // leftovers are deleted at the next start
  if (!emptied(path)) {
    fs::remove_all(path, ignored);
    return;
  }
  const std::lock_guard lock(mutex_);
  paths_.push_back(path);
}

std::optional<std::string> FolderPool::acquire() {
  const std::lock_guard lock(mutex_);
  while (!paths_.empty()) {
    std::string path = std::move(paths_.back());
    paths_.pop_back();
    if (isAsMade(path)) return path;  // unless it was deleted or changed
  }
  return std::nullopt;
}

AttemptFolder::~AttemptFolder() {
  if (!path_.empty()) spare_->recycle(path_);
}

absl::Status AttemptFolder::giveTo(int64_t uid, int64_t gid) const {
  const auto user = static_cast<uid_t>(uid);
  const auto group = static_cast<gid_t>(gid);
  const auto failed = [](const std::string& path) { return absl::ErrnoToStatus(errno, absl::StrCat("chown ", path)); };
  std::error_code error;
  // Inputs are links into the cache, which other users cannot access; grant the group read access here.
  for (const auto& input : fs::directory_iterator(path_ + "/in", error)) {
    if (lchown(input.path().c_str(), -1, group) != 0 || chmod(input.path().c_str(), 0440) != 0) {
      return failed(input.path());
    }
  }
  if (error) return absl::ErrnoToStatus(error.value(), path_ + "/in");
  const std::string in = path_ + "/in";
  if (lchown(in.c_str(), -1, group) != 0 || chmod(in.c_str(), 0750) != 0) return failed(in);
  for (const char* part : {"/task.pb", "/out", "/tmp", ""}) {
    const std::string path = path_ + part;
    if (lchown(path.c_str(), user, group) != 0) return failed(path);
  }
  return absl::OkStatus();
}

absl::Status AttemptFolder::takeBack() const {
  std::error_code error;
  if (lchown(path_.c_str(), geteuid(), getegid()) != 0) return absl::ErrnoToStatus(errno, path_);
  for (const auto& made : fs::recursive_directory_iterator(path_ + "/out", error)) {
    if (lchown(made.path().c_str(), geteuid(), getegid()) != 0) return absl::ErrnoToStatus(errno, made.path().string());
  }
  return error ? absl::ErrnoToStatus(error.value(), path_) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Scratch>> Scratch::open(const std::string& root) {
  std::error_code error;
  if (absl::Status own = createPrivateFolder(root, {"lock"}); !own.ok()) {
    return absl::Status(own.code(), absl::StrCat("scratch folder ", own.message()));
  }
  // Landlock rules and log messages need one absolute name, independent of the working folder.
  std::unique_ptr<Scratch> scratch(new Scratch(fs::canonical(root, error).string()));
  const std::string lock = scratch->root_ + "/lock";
  scratch->lock_ = FileDescriptor(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!scratch->lock_.valid()) return absl::ErrnoToStatus(errno, lock);
  if (flock(scratch->lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("scratch folder ", root, " is in use by another worker; give each its own --scratch"));
  }
  fs::remove_all(scratch->attemptsFolder(), error);
  if (!error) fs::create_directories(scratch->attemptsFolder(), error);
  if (error) return absl::ErrnoToStatus(error.value(), scratch->attemptsFolder());
  return scratch;
}

absl::StatusOr<AttemptFolder> Scratch::newAttempt() {
  if (auto spare = spare_->acquire()) return AttemptFolder(*std::move(spare), spare_);
  AttemptFolder folder(absl::StrCat(attemptsFolder(), "/", next_++), spare_);
  for (const char* part : kParts) {
    const std::string path = folder.path() + part;
    if (mkdir(path.c_str(), 0700) != 0) return absl::ErrnoToStatus(errno, path);
  }
  return folder;
}

}  // namespace tessera::worker
