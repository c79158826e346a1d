#include "storage/shared_partials.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/messages/blob_path.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr size_t kHashChunkBytes = 1 << 20;
constexpr char kPartialPrefix[] = "partials/";

/// The bytes of a file from an offset on.
class FileTail : public File {
 public:
  FileTail(const File& file, int64_t begin) : file_(file), begin_(begin) {}
  absl::StatusOr<FileInfo> facts() const override {
    absl::StatusOr<FileInfo> facts = file_.facts();
    if (facts.ok()) facts->size = std::max<int64_t>(0, facts->size - begin_);
    return facts;
  }
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    return file_.readAt(begin_ + offset, data, size);
  }
  absl::Status writeAt(int64_t, std::string_view) override { return readOnly(); }
  absl::Status truncate(int64_t) override { return readOnly(); }
  absl::Status sync() override { return readOnly(); }

 private:
  static absl::Status readOnly() { return absl::InternalError("the tail of a partial file is only read"); }

  const File& file_;
  const int64_t begin_;
};

/// SHA-256 of the first `bytes` bytes of a file.
absl::StatusOr<std::string> hashOfBytes(const File& file, int64_t bytes) {
  Sha256 hash;
  std::string chunk(kHashChunkBytes, '\0');
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

/// Sorted by their beginning.
absl::StatusOr<std::vector<SharedPartials::Segment>> SharedPartials::segmentsOf(const v1::Digest& digest,
                                                                                const std::string& project) {
  std::vector<Segment> segments;
  TESSERA_RETURN_IF_ERROR(
      objects_.list(absl::StrCat(kPartialPrefix, digest.sha256(), "_"), "", [&](const ObjectInfo& object) {
        const std::vector<std::string> parts = absl::StrSplit(object.name.substr(sizeof(kPartialPrefix) - 1), '_');
        Segment segment{object.name, 0, 0, parts.size() == 5 ? parts[3] : ""};
        if (parts.size() == 5 && parts[4] == project && absl::SimpleAtoi(parts[1], &segment.begin) &&
            absl::SimpleAtoi(parts[2], &segment.end) && segment.begin >= 0 && segment.end > segment.begin &&
            segment.end - segment.begin == object.bytes && segment.end <= digest.size_bytes()) {
          segments.push_back(std::move(segment));
        }
        return true;
      }));
  std::ranges::sort(segments, {}, &Segment::begin);
  return segments;
}

absl::StatusOr<std::optional<SharedPartials::Found>> SharedPartials::find(const v1::Digest& digest,
                                                                          const std::string& project) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Segment> segments, segmentsOf(digest, project));
  std::map<int64_t, const Segment*> last_to = {{0, nullptr}};  // the last segment of a chain that ends there
  for (const Segment& segment : segments) {
    if (last_to.contains(segment.begin)) last_to.try_emplace(segment.end, &segment);
  }
  Found found;
  found.bytes = last_to.rbegin()->first;
  if (found.bytes == 0) return std::nullopt;
  for (const Segment* segment = last_to[found.bytes]; segment != nullptr; segment = last_to[segment->begin]) {
    found.chain.push_back(*segment);
  }
  std::ranges::reverse(found.chain);
  return found;
}

absl::Status SharedPartials::store(const v1::Digest& digest, const std::string& project) {
  const std::string path = absl::StrCat(folder_, "/", kPartialBlobsFolder, "/", digest.sha256(), ".", project);
  const absl::StatusOr<std::unique_ptr<File>> file = files_.open(path, FileSystem::Access::kRead);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(file.status());
  TESSERA_ASSIGN_OR_RETURN(const FileInfo facts, (*file)->facts());
  if (facts.size < kMinBytes) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const std::optional<Found> known, find(digest, project));
  const int64_t begin = known ? known->bytes : 0;
  if (facts.size - begin < kMinBytes) return absl::OkStatus();
  const FileTail tail(**file, begin);
  v1::Digest segment;
  segment.set_size_bytes(facts.size - begin);
  TESSERA_ASSIGN_OR_RETURN(*segment.mutable_sha256(), hashOfBytes(tail, segment.size_bytes()));
  return objects_.put(
      absl::StrCat(kPartialPrefix, digest.sha256(), "_", begin, "_", facts.size, "_", segment.sha256(), "_", project),
      tail, segment);
}

absl::Status SharedPartials::fetch(const Found& found, int64_t from, BlobStore::Upload& to) {
  for (const Segment& segment : found.chain) {
    if (segment.end <= from) continue;
    const int64_t skipped = std::max<int64_t>(0, from - segment.begin);
    Sha256 hash;
    int64_t bytes = skipped;
    TESSERA_RETURN_IF_ERROR(objects_.get(segment.name, skipped, 0, [&](std::string_view chunk) {
      hash.update(chunk);
      bytes += static_cast<int64_t>(chunk.size());
      return to.write(chunk);
    }));
    // Of a segment that is read in part, only the digest of the whole blob shows a damage.
    if (bytes == segment.end - segment.begin && (skipped > 0 || hash.finish() == segment.sha256)) continue;
    (void)objects_.remove(segment.name);
    return absl::DataLossError(
        absl::StrCat("object ", objects_.placeOf(segment.name), " has wrong bytes; send the blob again from 0"));
  }
  return absl::OkStatus();
}

absl::Status SharedPartials::remove(const v1::Digest& digest, const std::string& project) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Segment> segments, segmentsOf(digest, project));
  for (const Segment& segment : segments) TESSERA_RETURN_IF_ERROR(objects_.remove(segment.name));
  return absl::OkStatus();
}

absl::StatusOr<int> SharedPartials::removeStale(int64_t age_s) {
  std::vector<std::string> stale;
  TESSERA_RETURN_IF_ERROR(objects_.list(kPartialPrefix, "", [&](const ObjectInfo& object) {
    if (object.age_s >= age_s) stale.push_back(object.name);
    return true;
  }));
  for (const std::string& name : stale) TESSERA_RETURN_IF_ERROR(objects_.remove(name));
  return static_cast<int>(stale.size());
}

}  // namespace tessera::storage
