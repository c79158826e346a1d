#include "storage/shared_partials.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/messages/blob_path.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr char kPrefix[] = "partials/";

/// SHA-256 of the first `bytes` bytes of a file.
absl::StatusOr<std::string> hashOfPrefix(const File& file, int64_t bytes) {
  Sha256 hash;
  std::string chunk(kChunkBytes, '\0');
  for (int64_t done = 0; done < bytes;) {
    const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(bytes - done));
    TESSERA_ASSIGN_OR_RETURN(const size_t got, file.readAt(done, chunk.data(), wanted));
    if (got == 0) return absl::DataLossError("a partial file became shorter");
    hash.update({chunk.data(), got});
    done += static_cast<int64_t>(got);
  }
  return hash.finish();
}

}  // namespace

absl::StatusOr<std::optional<SharedPartials::Found>> SharedPartials::find(const v1::Digest& digest,
                                                                          const std::string& project) {
  std::optional<Found> longest;
  TESSERA_RETURN_IF_ERROR(objects_.list(absl::StrCat(kPrefix, digest.sha256(), "_"), "", [&](const ObjectInfo& object) {
    const std::vector<std::string> parts =
        absl::StrSplit(absl::string_view(object.name).substr(sizeof(kPrefix) - 1), '_');
    int64_t bytes = 0;
    if (parts.size() == 4 && parts[3] == project && absl::SimpleAtoi(parts[1], &bytes) && bytes == object.bytes &&
        bytes <= digest.size_bytes() && (!longest || bytes > longest->bytes)) {
      longest = {object.name, bytes, parts[2]};
    }
    return true;
  }));
  return longest;
}

absl::Status SharedPartials::store(const v1::Digest& digest, const std::string& project,
                                   const std::optional<Found>& known) {
  const std::string path = absl::StrCat(folder_, "/", kPartialBlobsFolder, "/", digest.sha256(), ".", project);
  const absl::StatusOr<std::unique_ptr<File>> file = files_.open(path, FileSystem::Access::kRead);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(file.status());
  TESSERA_ASSIGN_OR_RETURN(const FileInfo facts, (*file)->facts());
  if (facts.size < kLeastBytes || (known && facts.size <= known->bytes)) return absl::OkStatus();
  v1::Digest prefix;
  prefix.set_size_bytes(facts.size);
  TESSERA_ASSIGN_OR_RETURN(*prefix.mutable_sha256(), hashOfPrefix(**file, facts.size));
  TESSERA_RETURN_IF_ERROR(objects_.put(
      absl::StrCat(kPrefix, digest.sha256(), "_", facts.size, "_", prefix.sha256(), "_", project), **file, prefix));
  if (known) remove(*known);
  return absl::OkStatus();
}

absl::Status SharedPartials::fetch(const Found& found, BlobStore::Upload& to) {
  Sha256 hash;
  int64_t bytes = 0;
  TESSERA_RETURN_IF_ERROR(objects_.get(found.name, 0, 0, [&](std::string_view chunk) {
    hash.update(chunk);
    bytes += static_cast<int64_t>(chunk.size());
    return to.write(chunk);
  }));
  if (bytes == found.bytes && hash.finish() == found.sha256) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("object ", objects_.placeOf(found.name), " has wrong bytes; send the blob again from 0"));
}

absl::StatusOr<int> SharedPartials::removeStale(int64_t age_s) {
  std::vector<std::string> stale;
  TESSERA_RETURN_IF_ERROR(objects_.list(kPrefix, "", [&](const ObjectInfo& object) {
    if (object.age_s >= age_s) stale.push_back(object.name);
    return true;
  }));
  for (const std::string& name : stale) TESSERA_RETURN_IF_ERROR(objects_.remove(name));
  return static_cast<int>(stale.size());
}

}  // namespace tessera::storage
