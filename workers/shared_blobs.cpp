#include "workers/shared_blobs.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/messages/blob_path.h"

namespace tessera::worker {
namespace {

/// Makes a file read-only under all its names. Keeps read permission for a group (tasks of another user).
bool makeReadOnly(const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return false;
  const mode_t mode = facts.st_mode & 07777;
  return mode == 0400 || mode == 0440 || chmod(path.c_str(), 0400) == 0;
}

}  // namespace

SharedBlobs::SharedBlobs(std::string folder) : folder_(std::move(folder)), usable_(!folder_.empty()) {
  const std::string place = unfinished("");
  if (usable_ && access(place.c_str(), W_OK | X_OK) != 0) giveUp(absl::StrCat(place, ": ", strerror(errno)));
}

void SharedBlobs::giveUp(const std::string& why) {
  if (usable_.exchange(false)) spdlog::warn("blobs are streamed instead of shared: {}", why);
}

bool SharedBlobs::link(const std::string& from, const std::string& to) {
  if (makeReadOnly(from) && ::link(from.c_str(), to.c_str()) == 0) return true;
  const int error = errno;  // ENOENT: the blob is not stored as a plain file
  if (error != ENOENT) giveUp(absl::StrCat("cannot link ", from, " to ", to, ": ", strerror(error)));
  return false;
}

std::string SharedBlobs::unfinished(const std::string& name) const {
  return absl::StrCat(folder_, "/", kPartialBlobsFolder, "/", name);
}

bool SharedBlobs::take(const std::string& sha256, const std::string& path) {
  return usable_ && link(absl::StrCat(folder_, "/", blobRelativePath(sha256)), path);
}

bool SharedBlobs::isServersFile(const std::string& sha256, const std::string& path) const {
  struct stat servers{}, here{};
  return !folder_.empty() && stat(absl::StrCat(folder_, "/", blobRelativePath(sha256)).c_str(), &servers) == 0 &&
         stat(path.c_str(), &here) == 0 && servers.st_dev == here.st_dev && servers.st_ino == here.st_ino;
}

std::optional<std::string> SharedBlobs::place(const v1::Digest& digest, const std::string& path) {
  static std::atomic<int> number = 0;
  if (!usable_) return std::nullopt;
  std::string name = absl::StrCat(digest.sha256(), kPlacedBlobInfix, getpid(), "-", ++number);
  return link(path, unfinished(name)) ? std::optional(std::move(name)) : std::nullopt;
}

void SharedBlobs::forget(const std::string& placed) { unlink(unfinished(placed).c_str()); }

}  // namespace tessera::worker
