#pragma once

#include <cstdint>
#include <string>

namespace tessera::worker {

struct FolderSize {
  int64_t bytes = 0;    ///< disk space used
  int64_t entries = 0;  ///< files and folders
  bool hidden = false;  ///< some content could not be examined
};

/// Limit on entries, far above what tasks create: even empty files cost disk space.
constexpr int64_t kMaxEntries = 200'000;

/// Measures a folder without its entry `but`; concurrent changes may be missed. Changes the permissions of subfolders
/// that their owner, this user, has made unreadable. Stops counting beyond kMaxEntries.
FolderSize sizeOf(const std::string& folder, const std::string& but);

}  // namespace tessera::worker
