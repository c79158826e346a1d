#include "workers/folder_size.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {
namespace {

constexpr int64_t kBlock = 512;   // unit of st_blocks
constexpr int kDeepest = 100;     // maximum folder depth: each level uses a descriptor
constexpr mode_t kOwners = 0700;  // permissions that the owner needs to examine a folder

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

/// Opens a folder without following links, and changes the permissions of that very folder if needed, even if its name
/// is replaced concurrently.
FileDescriptor openFolder(int parent, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor folder(openat(parent, name, kFlags));
  if (folder.valid() || errno != EACCES) return folder;
  const FileDescriptor found(openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!found.valid()) return folder;
  const std::string path = absl::StrCat("/proc/self/fd/", found.get());
  if (chmod(path.c_str(), kOwners) != 0) return folder;
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void add(FileDescriptor opened, std::string_view but, int depth, FolderSize& size) {
  const std::unique_ptr<DIR, CloseFolder> folder(fdopendir(opened.get()));
  if (!folder) {
    size.hidden = true;
    return;
  }
  const int fd = opened.release();  // now owned by the stream
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || name == but) continue;
    struct stat status{};
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;  // deleted in the meantime
    size.bytes += int64_t{status.st_blocks} * kBlock;
    // The folder is over its limit already; counting further would only take time.
    if (++size.entries > kMaxEntries) return;
    if (!S_ISDIR(status.st_mode)) continue;
    FileDescriptor inner = openFolder(fd, entry->d_name);
    if (inner.valid() && depth < kDeepest) {
      add(std::move(inner), "", depth + 1, size);
    } else {
      size.hidden |= inner.valid() || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP);
    }
  }
}

}  // namespace

FolderSize sizeOf(const std::string& folder, const std::string& but) {
  FolderSize size;
  FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.valid()) {
    add(std::move(opened), but, 0, size);
  } else {
    size.hidden = errno != ENOENT;
  }
  return size;
}

}  // namespace tessera::worker
