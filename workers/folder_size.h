#pragma once

#include <cstdint>
#include <string>

namespace tessera::worker {

struct FolderSize {
  int64_t bytes = 0;    ///< on the disk
  int64_t entries = 0;  ///< files and folders
  bool hidden = false;  ///< there is more, that cannot be looked at
};

/// More than any task makes: a folder with so many costs the disk although they be empty.
constexpr int64_t kMostEntries = 200'000;

/// What a folder holds now, without the entry `but`; what comes and goes meanwhile may be missed. Opens to this user
/// what its owner, the same user, has closed to all. Stops counting past kMostEntries.
FolderSize sizeOf(const std::string& folder, const std::string& but);

}  // namespace tessera::worker
