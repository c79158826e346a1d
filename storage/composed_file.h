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

/// A part of a composed blob: inline bytes, or a whole other blob.
struct RecipePart {
  bool own = true;
  int64_t bytes = 0;
};

/// Header of a composed blob's recipe: "tessera-composed 1", one line per part ("own BYTES" or "blob BYTES"), and an
/// empty line; the inline bytes follow. The bytes of other blobs are reached by hard links of the recipe,
/// "parts/SHA256.INDEX" below the store's folder, so that they outlive those blobs.
std::string recipeHeader(const std::vector<RecipePart>& parts);

/// Appended to the file name that the blob would otherwise have.
inline constexpr char kRecipeSuffix[] = ".composed";
std::string recipePath(const std::string& root, const std::string& sha256);
std::string partPath(const std::string& root, const std::string& sha256, size_t index);

/// Opens a composed blob below the store's folder for reading; NOT_FOUND if there is none.
absl::StatusOr<std::unique_ptr<File>> openComposed(FileSystem& files, const std::string& root,
                                                   const std::string& sha256);

/// Likewise, for a recipe that is not published yet. `others` are the files of the parts that are blobs, in order.
/// DATA_LOSS if their sizes differ from the recipe.
absl::StatusOr<std::unique_ptr<File>> openComposed(std::unique_ptr<File> recipe,
                                                   std::vector<std::unique_ptr<File>> others);

}  // namespace tessera::storage
