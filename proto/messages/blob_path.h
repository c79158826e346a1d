#pragma once

#include <string>

/// Paths of blobs, relative to the store's blob folder. Shared by the store, backups, and workers on the same machine,
/// which hard-link blobs.
namespace tessera {

inline std::string blobRelativePath(const std::string& sha256) {
  return sha256.substr(0, 2) + "/" + sha256.substr(2, 2) + "/" + sha256;
}

/// Subfolder for unfinished uploads.
inline constexpr char kPartialBlobsFolder[] = "tmp";
/// Infix of a complete file that a worker placed there: "<sha256>.placed_<number>". Project names cannot contain '_',
/// so these names cannot collide with those of uploads.
inline constexpr char kPlacedBlobInfix[] = ".placed_";

}  // namespace tessera
