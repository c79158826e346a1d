#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/file_system.h"

namespace tessera::storage {

/// A piece of a composed blob: bytes of its own, or a whole other blob.
struct RecipePart {
  bool own = true;
  int64_t bytes = 0;
};

/// A composed blob's recipe: "tessera-composed 1", a line for each part ("own BYTES" or "blob BYTES"), an empty line,
/// then its own bytes. For the bytes of other blobs it has names of its own, "parts/SHA256.INDEX" below the store's
/// folder, so that they stay whatever becomes of those blobs.
std::string recipeHeader(const std::vector<RecipePart>& parts);

/// Behind the name that the blob would have as a file of its own.
inline constexpr char kRecipeSuffix[] = ".composed";
std::string recipePath(const std::string& root, const std::string& sha256);
std::string partPath(const std::string& root, const std::string& sha256, size_t index);

/// A composed blob below a store's folder as one file to read; NOT_FOUND when there is none.
absl::StatusOr<std::unique_ptr<File>> openComposed(FileSystem& files, const std::string& root,
                                                   const std::string& sha256);

/// The same of a recipe that has no place yet. `others` are the files of the parts that are other blobs, in order;
/// DATA_LOSS when they are not of the sizes that the recipe says.
absl::StatusOr<std::unique_ptr<File>> openComposed(std::unique_ptr<File> recipe,
                                                   std::vector<std::unique_ptr<File>> others);

}  // namespace tessera::storage
