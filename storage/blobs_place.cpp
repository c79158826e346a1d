#include "storage/blobs_place.h"

#include <cstddef>

#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

std::string pathIn(const std::string& folder) { return folder + "/object-store"; }

}  // namespace

absl::StatusOr<std::string> readBlobsPlace(const std::string& folder, FileSystem& files) {
  const auto file = files.open(pathIn(folder), FileSystem::Access::kRead);
  if (absl::IsNotFound(file.status())) return std::string();
  TESSERA_RETURN_IF_ERROR(file.status());
  std::string place(4096, '\0');
  TESSERA_ASSIGN_OR_RETURN(const size_t size, (*file)->readAt(0, place.data(), place.size()));
  place.resize(size);
  return place;
}

absl::Status writeBlobsPlace(const std::string& folder, FileSystem& files, const std::string& place) {
  const std::string fresh = pathIn(folder) + ".new";
  TESSERA_ASSIGN_OR_RETURN(const auto file, files.open(fresh, FileSystem::Access::kReadWriteCreate));
  TESSERA_RETURN_IF_ERROR(file->truncate(0));
  TESSERA_RETURN_IF_ERROR(file->writeAt(0, place));
  TESSERA_RETURN_IF_ERROR(file->sync());
  TESSERA_RETURN_IF_ERROR(files.rename(fresh, pathIn(folder)));
  return files.syncFolder(folder);
}

}  // namespace tessera::storage
