#pragma once

#include <string>

/// Where blobs lie below the store's folder: for the store, for backups, and for workers on its machine, which link
/// them.
namespace tessera {

inline std::string blobPlace(const std::string& sha256) {
  return sha256.substr(0, 2) + "/" + sha256.substr(2, 2) + "/" + sha256;
}

/// Unfinished blobs, below the same folder.
inline constexpr char kUnfinishedBlobs[] = "tmp";
/// What a worker has put there whole: "<sha256>.placed_<number>". No project's name has that character.
inline constexpr char kPlacedBlob[] = ".placed_";

}  // namespace tessera
