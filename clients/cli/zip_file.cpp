#include "clients/cli/zip_file.h"

#include <zip.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

absl::Status broken(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<Archive> openArchive(const std::string& path) {
  int error = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &error), &zip_discard);
  if (archive) return archive;
  zip_error_t why;
  zip_error_init_with_code(&why, error);
  const std::string message = zip_error_strerror(&why);
  zip_error_fini(&why);
  if (error == ZIP_ER_NOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return broken(path, "is a folder; a file is wanted");
  if (error == ZIP_ER_NOZIP || error == ZIP_ER_INCONS)
    return broken(path, "not a zip archive, or cut short; artifacts (.tsra) and .npz files are such archives");
  return broken(path, absl::StrCat("not a zip archive: ", message));
}

absl::StatusOr<std::string> readAt(zip_t* archive, zip_uint64_t index, const std::string& path, size_t most) {
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(zip_fopen_index(archive, index, 0), &zip_fclose);
  std::string bytes, chunk(1 << 20, '\0');
  zip_int64_t got = file ? 1 : -1;
  while (got > 0) {
    got = zip_fread(file.get(), chunk.data(), chunk.size());
    if (got > 0) bytes.append(chunk.data(), static_cast<size_t>(got));
    if (bytes.size() > most)
      return broken(path, absl::StrCat("entry ", index, " has more than the ", most, " bytes that it may"));
  }
  if (got < 0) return broken(path, absl::StrCat("cannot read entry ", index));
  return bytes;
}

}  // namespace

absl::Status forEachZipEntry(const std::string& path,
                             const std::function<absl::Status(const std::string& name, std::string bytes)>& use,
                             int64_t spare) {
  TESSERA_ASSIGN_OR_RETURN(auto archive, openArchive(path));
  std::error_code error;
  const uint64_t packed = std::filesystem::file_size(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), path);
  uint64_t left = static_cast<uint64_t>(spare) + kMaxGrowth * packed;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* name = zip_get_name(archive.get(), i, 0);
    if (!name) return broken(path, "damaged directory");
    TESSERA_ASSIGN_OR_RETURN(auto bytes, readAt(archive.get(), i, path, left));
    left -= bytes.size();
    TESSERA_RETURN_IF_ERROR(use(name, std::move(bytes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> readZipEntry(const std::string& path, const std::string& entry, size_t most) {
  TESSERA_ASSIGN_OR_RETURN(auto archive, openArchive(path));
  const zip_int64_t index = zip_name_locate(archive.get(), entry.c_str(), 0);
  if (index < 0) return broken(path, absl::StrCat("has no entry ", entry));
  return readAt(archive.get(), index, path, most);
}

}  // namespace tessera::client
