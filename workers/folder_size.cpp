#include "workers/folder_size.h"

#include <sys/stat.h>

#include <filesystem>

namespace tessera::worker {

FolderSize sizeOf(const std::string& folder, const std::string& but) {
  namespace fs = std::filesystem;
  constexpr int64_t kBlock = 512;  // that st_blocks counts in
  FolderSize size;
  std::error_code error;
  const fs::recursive_directory_iterator end;
  for (fs::recursive_directory_iterator entry(folder, error); !error && entry != end; entry.increment(error)) {
    if (entry.depth() == 0 && entry->path().filename() == but) {
      entry.disable_recursion_pending();
      continue;
    }
    struct stat status;
    if (lstat(entry->path().c_str(), &status) == 0) size.bytes += int64_t{status.st_blocks} * kBlock;
    if (++size.entries > kMostEntries) break;
  }
  return size;
}

}  // namespace tessera::worker
