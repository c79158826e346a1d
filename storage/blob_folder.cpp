#include "storage/blob_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "storage/blob_file.h"
#include "storage/digest.h"

namespace tessera::storage {

absl::StatusOr<std::unique_ptr<BlobFolder>> BlobFolder::open(const std::string& root, const BlobStoreOptions& options) {
  std::unique_ptr<BlobFolder> folder(new BlobFolder(root));
  for (const std::string& path : {root, root + "/tmp", root + "/corrupt"}) {
    if (absl::Status status = makeFolder(path); !status.ok()) return status;
  }
  if (absl::Status status = syncFolder(root); !status.ok()) return status;
  if (absl::Status status = folder->removeStalePartials(options); !status.ok()) return status;
  return folder;
}

absl::Status BlobFolder::removeStalePartials(const BlobStoreOptions& options) const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "/tmp", error)) {
    struct stat status{};
    const std::string path = entry.path().string();
    if (stat(path.c_str(), &status) != 0) continue;
    // Only uploads can be resumed, and their names are plain digests.
    const bool resumable = isSha256(entry.path().filename().string());
    if (!resumable || time(nullptr) - status.st_mtime > options.partial_lifetime_seconds) unlink(path.c_str());
  }
  return error ? fileError("list", root_ + "/tmp", error.value()) : absl::OkStatus();
}

std::string BlobFolder::blobPath(const std::string& sha256) const {
  return absl::StrCat(root_, "/", sha256.substr(0, 2), "/", sha256.substr(2, 2), "/", sha256);
}

absl::StatusOr<int64_t> BlobFolder::blobSize(const std::string& sha256) const {
  struct stat status{};
  // The name may come from a request; only a digest may become a path.
  const bool valid = isSha256(sha256);
  if (valid && stat(blobPath(sha256).c_str(), &status) == 0) return int64_t{status.st_size};
  if (valid && errno != ENOENT) return fileError("look at", blobPath(sha256), errno);
  return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
}

absl::Status BlobFolder::ensureFolder(const std::string& sha256) {
  uint32_t prefix = 0;
  (void)absl::SimpleHexAtoi(sha256.substr(0, 4), &prefix);
  std::lock_guard<std::mutex> lock(mutex_);
  if (durable_[prefix]) return absl::OkStatus();
  // A folder may have been made just before a crash, so what is not known to be durable is synced anew.
  const std::string outer = absl::StrCat(root_, "/", sha256.substr(0, 2));
  const std::string inner = absl::StrCat(outer, "/", sha256.substr(2, 2));
  absl::Status status = makeFolder(outer);
  if (status.ok()) status = makeFolder(inner);
  if (status.ok()) status = syncFolder(outer);
  if (status.ok()) status = syncFolder(root_);
  durable_[prefix] = status.ok();
  return status;
}

absl::Status BlobFolder::publish(const std::string& partial_name, const std::string& sha256) {
  if (absl::Status status = ensureFolder(sha256); !status.ok()) return status;
  const std::string path = blobPath(sha256);
  if (rename(partialPath(partial_name).c_str(), path.c_str()) != 0) return fileError("rename to", path, errno);
  return syncFolder(path.substr(0, path.rfind('/')));
}

absl::Status BlobFolder::setAside(const std::string& sha256, int descriptor) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string path = blobPath(sha256);
  struct stat named{};
  struct stat opened{};
  if (stat(path.c_str(), &named) != 0 || fstat(descriptor, &opened) != 0 || named.st_ino != opened.st_ino) {
    return absl::OkStatus();
  }
  const std::string aside = absl::StrCat(root_, "/corrupt/", sha256, ".", time(nullptr), ".", ++set_aside_);
  if (rename(path.c_str(), aside.c_str()) != 0) return fileError("set aside", path, errno);
  return syncFolder(path.substr(0, path.rfind('/')));
}

}  // namespace tessera::storage
