#include "workers/file_digest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

namespace {

constexpr off_t kChunkBytes = off_t{1} << 20;

absl::StatusOr<int64_t> hashFile(const std::string& path, Sha256& hash) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return absl::ErrnoToStatus(errno, path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));
  // Do not allocate more than the file needs: in a new process each page of a buffer is a page fault.
  std::vector<char> chunk(static_cast<size_t>(std::clamp<off_t>(status.st_size, 1, kChunkBytes)));
  int64_t total = 0;
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) return total;
    hash.update({chunk.data(), static_cast<size_t>(got)});
    total += got;
  }
}

}  // namespace

absl::StatusOr<v1::Digest> digestFiles(const std::vector<std::string>& paths, std::vector<int64_t>* sizes) {
  Sha256 hash;
  int64_t total = 0;
  for (const std::string& path : paths) {
    TESSERA_ASSIGN_OR_RETURN(int64_t size, hashFile(path, hash));
    sizes->push_back(size);
    total += size;
  }
  v1::Digest digest;
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(total);
  return digest;
}

absl::StatusOr<v1::Digest> digestFile(const std::string& path) {
  std::vector<int64_t> sizes;
  return digestFiles({path}, &sizes);
}

}  // namespace tessera::worker
