#include "storage/blob_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/blob_path.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/blob_folder.h"
#include "storage/blob_rows.h"
#include "storage/blob_uploads.h"
#include "storage/file_system.h"
#include "storage/space_accounting.h"

namespace tessera::storage {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

std::string partialName(const std::string& sha256, const BlobStore::Uploader& sender) {
  return sender.project.empty() ? sha256 : absl::StrCat(sha256, ".", sender.project);
}

/// Name of a concurrent upload's partial file. It cannot be resumed after a restart. Room reads the project from it.
std::string concurrentPartialName(const std::string& sha256, int64_t number, const BlobStore::Uploader& sender) {
  return partialName(absl::StrCat(sha256, "-", number), sender);
}

class FileBlobStore : public BlobStore {
 public:
  FileBlobStore(std::unique_ptr<BlobFolder> folder, const BlobStoreOptions& options)
      : folder_(std::move(folder)), options_(options), rows_(options.rows, options.most_row_bytes) {}

  bool becomesRow(int64_t bytes) const override { return rows_.takes(bytes); }
  bool contains(const std::string& sha256) override { return size(sha256).ok(); }
  /// Looks in the rows first, since most blobs are small.
  absl::StatusOr<int64_t> size(const std::string& sha256) override {
    absl::StatusOr<int64_t> bytes = rows_.size(sha256);
    return absl::IsNotFound(bytes.status()) ? folder_->blobSize(sha256) : bytes;
  }

  std::vector<v1::Digest> missing(const std::vector<v1::Digest>& digests) override {
    std::vector<v1::Digest> missing;
    for (const v1::Digest& digest : digests) {
      if (!contains(digest.sha256())) missing.push_back(digest);
    }
    return missing;
  }

  absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest, const Uploader& sender) override {
    TESSERA_RETURN_IF_ERROR(check(digest));
    if (absl::StatusOr<int64_t> size = this->size(digest.sha256()); size.ok() && !sender.require_proof) return size;
    absl::StatusOr<FileInfo> partial =
        folder_->files().look(folder_->partialPath(partialName(digest.sha256(), sender)));
    if (absl::IsNotFound(partial.status())) return 0;
    if (!partial.ok()) return partial.status();
    return partial->size;
  }

  absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset,
                                                      const Uploader& sender) override {
    TESSERA_RETURN_IF_ERROR(check(digest));
    const std::string& sha256 = digest.sha256();
    absl::StatusOr<bool> present = presentAs(digest, sender);
    if (!present.ok()) return present.status();
    if (*present && !sender.require_proof) return noUpload(sha256);
    // Only from offset 0: a kept prefix is resumed as if the blob did not exist.
    if (*present && offset == 0) return std::make_unique<ProofUpload>(digest, confirmation(sha256));
    const std::string resumed = partialName(sha256, sender);
    // If another upload is in progress, perhaps of a client that is gone, use a separate partial file.
    const bool alone = uploads_.start(resumed);
    const std::string name = alone ? resumed : concurrentPartialName(sha256, ++puts_, sender);
    const auto release = [this, sha256, name, resumed, alone] {
      alone ? end(name) : endConcurrent(sha256, name, resumed);
    };
    auto upload =
        std::make_unique<FileUpload>(PartialUpload::Place{*folder_, room_, digest, name, release, publishing_,
                                                          rows_.takes(digest.size_bytes()) ? &rows_ : nullptr},
                                     *present ? 0 : digest.size_bytes());
    // Check again: an upload that has just ended may have created the blob.
    present = presentAs(digest, sender);
    if (!present.ok()) return present.status();
    if (*present && !sender.require_proof) return noUpload(sha256);
    TESSERA_ASSIGN_OR_RETURN(int64_t committed, committedBytes(digest, sender));
    // The other upload may have progressed since the client asked.
    if (offset != 0 && (alone ? offset != committed : offset > committed)) {
      return absl::FailedPreconditionError(absl::StrCat("upload of ", sha256, " at offset ", offset,
                                                        "; accepted: ", committed, " to continue, 0 to start over"));
    }
    TESSERA_RETURN_IF_ERROR(makeRoom(name, digest.size_bytes(), offset));
    TESSERA_RETURN_IF_ERROR(upload->open(offset, alone ? "" : resumed));
    return upload;
  }

  absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest, const std::vector<Part>& parts,
                                                        DigestSource hashed) override {
    TESSERA_ASSIGN_OR_RETURN(bool present, beginWhole(digest));
    if (present) return noUpload(digest.sha256());
    int64_t total = 0, shared = 0;
    for (const Part& part : parts) {
      absl::StatusOr<int64_t> size = part.bytes;
      if (!part.sha256.empty()) {
        TESSERA_RETURN_IF_ERROR(ensureFile(part.sha256));
        size = folder_->blobSize(part.sha256);
        shared += part.bytes;
      }
      if (!size.ok()) return size.status();
      if (part.bytes < 0 || *size != part.bytes || part.bytes > digest.size_bytes() - total) {
        return absl::InvalidArgumentError(absl::StrCat("parts: found one of ", part.bytes, " bytes of a blob of ",
                                                       digest.size_bytes(), "; accepted: sizes that add up"));
      }
      total += part.bytes;
    }
    if (total != digest.size_bytes() || parts.size() > kMaxParts) {
      return absl::InvalidArgumentError(absl::StrCat("parts: found ", parts.size(), " of ", total, " bytes in all; ",
                                                     "accepted: up to ", kMaxParts, " of ", digest.size_bytes()));
    }
    const std::string name = absl::StrCat(digest.sha256(), ".", ++puts_);
    // Composed and placed blobs have no resumable partial file, so a concurrent upload is refused, not joined.
    if (!uploads_.start(digest.sha256())) return uploadedElsewhere(digest);
    auto upload = std::make_unique<ComposedUpload>(placeOfWhole(digest, name), parts, hashed);
    TESSERA_RETURN_IF_ERROR(makeRoom(name, digest.size_bytes(), shared));
    TESSERA_RETURN_IF_ERROR(upload->open());
    return upload;
  }

  absl::StatusOr<std::unique_ptr<Upload>> startPlaced(const v1::Digest& digest, const std::string& name) override {
    TESSERA_ASSIGN_OR_RETURN(bool present, beginWhole(digest));
    if (present) return noUpload(digest.sha256());
    if (!BlobFolder::isPlaced(name) || !absl::StartsWith(name, digest.sha256())) {
      return absl::InvalidArgumentError(
          absl::StrCat("placed: found \"", name, "\"; accepted: ", digest.sha256(), kPlacedBlobInfix, " and a number"));
    }
    TESSERA_ASSIGN_OR_RETURN(FileInfo facts, folder_->files().look(folder_->partialPath(name)));
    if (facts.size != digest.size_bytes()) {
      return absl::DataLossError(absl::StrCat("the file placed for ", digest.sha256(), " has ", facts.size, " bytes"));
    }
    if (!uploads_.start(digest.sha256())) return uploadedElsewhere(digest);
    auto upload = std::make_unique<PlacedUpload>(placeOfWhole(digest, name));
    // The bytes are on the disk already, but count towards the quota.
    TESSERA_RETURN_IF_ERROR(makeRoom(name, digest.size_bytes(), digest.size_bytes()));
    return upload;
  }

  int64_t unfinishedBytes(const std::string& project, const std::string& but_sha256) override {
    return room_.uploadBytesOf(project, partialName(but_sha256, {project}));
  }

  absl::StatusOr<v1::Digest> put(std::string_view bytes) override {
    v1::Digest digest;
    digest.set_sha256(sha256Hex(bytes));
    digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
    TESSERA_RETURN_IF_ERROR(put(digest, bytes));
    return digest;
  }

  absl::Status put(const v1::Digest& digest, std::string_view bytes) override {
    TESSERA_RETURN_IF_ERROR(check(digest));
    if (contains(digest.sha256())) return confirm(digest.sha256());
    if (!rows_.takes(digest.size_bytes())) return putFile(digest, bytes);
    const std::string name = absl::StrCat(digest.sha256(), ".", ++puts_);
    absl::Status status = makeRoom(name, digest.size_bytes(), 0);
    if (status.ok()) status = rows_.put(digest.sha256(), bytes);
    room_.leave(name, 0);
    return status;
  }

  absl::Status get(const std::string& sha256, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override;

  absl::Status remove(const std::string& sha256) override { return remove(sha256, true); }
  absl::Status removeFile(const std::string& sha256) override { return remove(sha256, false); }

  absl::Status remove(const std::string& sha256, bool with_row) {
    const absl::StatusOr<int64_t> row = rows_.size(sha256), file = folder_->blobSize(sha256);
    for (const absl::StatusOr<int64_t>& size : {row, file}) {
      if (!size.ok() && !absl::IsNotFound(size.status())) return size.status();
    }
    if (!row.ok() && !file.ok()) return absl::OkStatus();
    if (!uploads_.start(sha256)) return absl::AbortedError(absl::StrCat("blob ", sha256, " is being uploaded"));
    absl::Status status = row.ok() && with_row ? rows_.remove(sha256) : absl::OkStatus();
    if (status.ok() && file.ok()) status = folder_->remove(sha256);
    uploads_.end(sha256);
    if (status.ok() && file.ok()) room_.addBlobs(-*file);
    return status;
  }

  absl::Status forEach(
      const std::function<absl::Status(const std::string& sha256, int64_t bytes, int64_t age_s)>& visit) override {
    const int64_t now = time(nullptr);
    absl::Status status = rows_.forEach(
        [&](const RowBlob& blob) { return visit(blob.sha256, blob.size, std::max<int64_t>(0, now - blob.time_s)); });
    if (!status.ok()) return status;
    return folder_->forEach([&](const std::string& sha256, const FileInfo& facts) {
      if (rows_.size(sha256).ok()) return absl::OkStatus();  // also a row, visited above
      return visit(sha256, facts.size, std::max<int64_t>(0, now - facts.modified_s));
    });
  }

  absl::StatusOr<std::vector<std::string>> findAbsent(const std::vector<std::string>& sha256s) override {
    std::vector<std::string> absent;
    for (const std::string& sha256 : sha256s) {
      if (absl::IsNotFound(size(sha256).status())) absent.push_back(sha256);
    }
    return absent;
  }

  absl::StatusOr<std::vector<std::string>> damaged() override {
    absl::StatusOr<std::vector<std::string>> names = folder_->damaged();
    if (names.ok()) std::erase_if(*names, [this](const std::string& sha256) { return rows_.size(sha256).ok(); });
    return names;
  }

  absl::StatusOr<int> removeStalePartials() override {
    TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> stale, folder_->stalePartials(options_.partial_lifetime_seconds));
    int removed = 0;
    for (const std::string& name : stale) {
      // put() keeps its partial file for one call only: those of this process are in use, and older ones were removed
      // when the store was opened. A placed file is locked by its blob's digest while it is taken over.
      const bool placed = BlobFolder::isPlaced(name);
      const std::string writer = placed ? name.substr(0, name.find('.')) : name;
      if ((!placed && !BlobFolder::isUpload(name)) || !uploads_.start(writer)) continue;
      removed += folder_->files().remove(folder_->partialPath(name)).ok();
      if (placed) {
        uploads_.end(writer);
      } else {
        end(name);
      }
    }
    return removed;
  }

  absl::Status checkWritable() override {
    const std::string path = folder_->partialPath(absl::StrCat("probe.", ++puts_));
    TESSERA_ASSIGN_OR_RETURN(auto file, folder_->files().open(path, FileSystem::Access::kReadWriteCreate));
    const absl::Status written = file->writeAt(0, "probe");
    const absl::Status removed = folder_->files().remove(path);
    return written.ok() ? removed : written;
  }

  absl::StatusOr<int64_t> freeBytes() override { return folder_->files().freeBytes(folder_->partialPath("")); }

  /// Counts existing files for quotas: partial files always, blobs only if there is a total quota.
  absl::Status count() {
    absl::Status status = folder_->forEachPartial(
        [this](const std::string& name, const FileInfo& facts) { room_.leave(name, facts.size); });
    if (!status.ok() || options_.max_total_bytes == 0) return status;
    return folder_->forEach([this](const std::string&, const FileInfo& facts) {
      room_.addBlobs(facts.size);
      return absl::OkStatus();
    });
  }

 private:
  static constexpr size_t kMaxParts = 64;

  /// Makes an existing blob durable.
  absl::Status confirm(const std::string& sha256) {
    const absl::StatusOr<int64_t> row = rows_.size(sha256);
    return absl::IsNotFound(row.status()) ? folder_->confirm(sha256) : row.status();
  }
  ExistingBlobUpload::Confirm confirmation(const std::string& sha256) {
    return [this, sha256] { return confirm(sha256); };
  }
  std::unique_ptr<Upload> noUpload(const std::string& sha256) {
    return std::make_unique<ExistingBlobUpload>(confirmation(sha256));
  }

  absl::Status putFile(const v1::Digest& digest, std::string_view bytes) {
    // Use a separate partial file, so that put() need not wait for a client's upload of the same bytes.
    const std::string name = absl::StrCat(digest.sha256(), ".", ++puts_);
    FileUpload upload({*folder_, room_, digest, name, [this, name] { room_.leave(name, 0); }, publishing_},
                      digest.size_bytes());
    TESSERA_RETURN_IF_ERROR(makeRoom(name, digest.size_bytes(), 0));
    absl::Status status = upload.open(0);
    if (status.ok()) status = upload.write(bytes);
    if (status.ok()) status = upload.commit();
    if (!status.ok()) (void)folder_->files().remove(folder_->partialPath(name));
    return status;
  }

  /// Converts a row to a file, because parts of composed blobs are hard links.
  absl::Status ensureFile(const std::string& sha256) {
    const absl::StatusOr<std::string> row = rows_.get(sha256);
    if (absl::IsNotFound(row.status()) || folder_->blobSize(sha256).ok()) return absl::OkStatus();
    if (!row.ok()) return row.status();
    if (sha256Hex(*row) != sha256) return quarantineRow(sha256, *row);
    v1::Digest digest;
    digest.set_sha256(sha256);
    digest.set_size_bytes(static_cast<int64_t>(row->size()));
    return putFile(digest, *row);
  }

  /// Moves aside a row whose bytes do not match the digest. Returns DATA_LOSS.
  absl::Status quarantineRow(const std::string& sha256, const std::string& found) {
    absl::Status aside = folder_->quarantineBytes(sha256, found);
    aside.Update(rows_.removeDamaged(sha256, found));
    return damage(sha256, aside);
  }
  static absl::Status damage(const std::string& sha256, const absl::Status& aside) {
    return absl::DataLossError(
        absl::StrCat("blob ", sha256, " is damaged on disk; ",
                     aside.ok() ? "it was moved aside, upload it again" : std::string(aside.message())));
  }

  absl::Status getRow(const std::string& sha256, const std::string& bytes, int64_t offset, int64_t limit,
                      const std::function<absl::Status(std::string_view chunk)>& sink);
  static absl::Status checkRange(const std::string& sha256, int64_t offset, int64_t limit, int64_t size) {
    if (offset >= 0 && limit >= 0 && offset <= size) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("blob ", sha256, ": offset ", offset, ", limit ", limit,
                                              "; accepted: an offset of 0 to ", size, ", a limit of at least 0"));
  }

  static absl::Status uploadedElsewhere(const v1::Digest& digest) {
    return absl::AbortedError(
        absl::StrCat("another upload of ", digest.sha256(), " is in progress; retry when it has ended"));
  }

  /// Whether a blob that a worker sends exists.
  absl::StatusOr<bool> beginWhole(const v1::Digest& digest) {
    TESSERA_RETURN_IF_ERROR(check(digest));
    return presentAs(digest, {});
  }

  /// Place of an upload that cannot be resumed.
  PartialUpload::Place placeOfWhole(const v1::Digest& digest, const std::string& name) {
    return {*folder_,
            room_,
            digest,
            name,
            [this, name, sha256 = digest.sha256()] {
              room_.leave(name, 0);
              uploads_.end(sha256);
            },
            publishing_};
  }

  /// Whether the blob exists; INVALID_ARGUMENT if it exists with another size.
  absl::StatusOr<bool> presentAs(const v1::Digest& digest, const Uploader& sender) {
    absl::StatusOr<int64_t> size = this->size(digest.sha256());
    if (absl::IsNotFound(size.status())) return false;
    if (!size.ok()) return size.status();
    if (*size == digest.size_bytes()) return true;
    if (sender.require_proof) return false;  // no bytes can match the digest; do not reveal the stored size
    return absl::InvalidArgumentError(absl::StrCat("digest: found ", digest.sha256(), " of ", digest.size_bytes(),
                                                   " bytes; accepted: its size, which is ", *size));
  }

  /// Called when a partial file has no writer any more: accounts for its size, and removes it if empty.
  void end(const std::string& name) {
    const std::string path = folder_->partialPath(name);
    const absl::StatusOr<FileInfo> left = folder_->files().look(path);
    if (left.ok() && left->size == 0) (void)folder_->files().remove(path);
    if (left.ok() || absl::IsNotFound(left.status())) room_.leave(name, left.ok() ? left->size : 0);
    uploads_.end(name);
  }

  /// Likewise for a concurrent upload. If the partial file `resumed` is free by now, the longer of the two is kept for
  /// the next upload to resume.
  void endConcurrent(const std::string& sha256, const std::string& name, const std::string& resumed) {
    FileSystem& files = folder_->files();
    const absl::StatusOr<FileInfo> left = files.look(folder_->partialPath(name));
    if (left.ok() && left->size > 0 && !contains(sha256) && uploads_.start(resumed)) {
      const absl::StatusOr<FileInfo> other = files.look(folder_->partialPath(resumed));
      const int64_t others = other.ok() ? other->size : absl::IsNotFound(other.status()) ? 0 : left->size;
      if (left->size > others) (void)files.rename(folder_->partialPath(name), folder_->partialPath(resumed));
      end(resumed);
    }
    if (left.ok()) (void)files.remove(folder_->partialPath(name));
    room_.leave(name, 0);
  }

  /// Reserves space for an upload of `size` bytes, `there` of which are on the disk. RESOURCE_EXHAUSTED if it would
  /// exceed the quota or use the disk reserve.
  absl::Status makeRoom(const std::string& name, int64_t size, int64_t there) {
    const bool bounded = options_.max_total_bytes > 0;
    const int64_t most = bounded ? options_.max_total_bytes : std::numeric_limits<int64_t>::max();
    const int64_t bytes = size - there;
    TESSERA_ASSIGN_OR_RETURN(const int64_t rows, bounded ? rows_.totalBytes() : 0);
    if (!room_.reserve(name, size, most - rows)) {
      return absl::ResourceExhaustedError(absl::StrCat("blobs and unfinished uploads take ", room_.taken() + rows,
                                                       " bytes of a quota of ", most, "; ", bytes,
                                                       " more do not fit: delete artifacts, or raise the quota"));
    }
    if (options_.reserve_bytes == 0) return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(int64_t free, folder_->files().freeBytes(folder_->partialPath("")));
    if (free - bytes >= options_.reserve_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("the disk has ", free, " bytes free, of which ",
                                                     options_.reserve_bytes, " are kept for the database; ", bytes,
                                                     " more do not fit: free some space and retry"));
  }

  absl::Status check(const v1::Digest& digest) const {
    if (!isSha256(digest.sha256()) || digest.size_bytes() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("digest: found \"", digest.sha256(), "\" of ", digest.size_bytes(),
                                                     " bytes; accepted: 64 lower-case hexadecimal digits, size >= 0"));
    }
    if (digest.size_bytes() > options_.max_blob_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("blob ", digest.sha256(), " has ", digest.size_bytes(),
                                                       " bytes; accepted: at most ", options_.max_blob_bytes));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<BlobFolder> folder_;
  const BlobStoreOptions options_;
  BlobRows rows_;
  ActiveUploads uploads_, publishing_;
  std::atomic<int64_t> puts_ = 0;
  SpaceAccounting room_;
};

absl::Status FileBlobStore::getRow(const std::string& sha256, const std::string& bytes, int64_t offset, int64_t limit,
                                   const std::function<absl::Status(std::string_view chunk)>& sink) {
  const auto size = static_cast<int64_t>(bytes.size());
  TESSERA_RETURN_IF_ERROR(checkRange(sha256, offset, limit, size));
  const int64_t length = limit == 0 ? size - offset : std::min(limit, size - offset);
  if (length == size && sha256Hex(bytes) != sha256) return quarantineRow(sha256, bytes);
  if (length == 0) return absl::OkStatus();
  return sink(std::string_view(bytes).substr(static_cast<size_t>(offset), static_cast<size_t>(length)));
}

absl::Status FileBlobStore::get(const std::string& sha256, int64_t offset, int64_t limit,
                                const std::function<absl::Status(std::string_view chunk)>& sink) {
  const absl::StatusOr<std::string> row = rows_.get(sha256);
  if (!absl::IsNotFound(row.status())) return row.ok() ? getRow(sha256, *row, offset, limit, sink) : row.status();
  if (absl::StatusOr<int64_t> size = folder_->blobSize(sha256); !size.ok()) return size.status();
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<File> opened, folder_->openBlob(sha256));
  const File& file = *opened;
  TESSERA_ASSIGN_OR_RETURN(FileInfo facts, file.facts());
  const int64_t size = facts.size;
  TESSERA_RETURN_IF_ERROR(checkRange(sha256, offset, limit, size));
  const int64_t end = limit == 0 ? size : offset + std::min(limit, size - offset);
  const bool whole = offset == 0 && end == size;
  Sha256 hash;
  std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, end - offset)), '\0');
  while (offset < end || whole) {
    const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(end - offset));
    TESSERA_ASSIGN_OR_RETURN(size_t got, file.readAt(offset, chunk.data(), wanted));
    if (whole) hash.update({chunk.data(), got});
    offset += static_cast<int64_t>(got);
    const bool last = offset == end || got < wanted;
    // The last chunk is withheld until the digest is verified, so that no reader gets all bytes of a damaged blob.
    if (last && whole && hash.finish() != sha256) {
      return damage(sha256, folder_->quarantine(sha256, file));
    }
    if (got < wanted) return absl::DataLossError(absl::StrCat("blob ", sha256, " is truncated; upload it again"));
    if (got > 0) {
      TESSERA_RETURN_IF_ERROR(sink({chunk.data(), got}));
    }
    if (last) break;
  }
  return absl::OkStatus();
}

}  // namespace

void BlobStore::discard(const std::vector<v1::Digest>& digests) {
  for (const v1::Digest& digest : digests) {
    if (const absl::Status removed = remove(digest.sha256()); !removed.ok() && !absl::IsAborted(removed)) {
      spdlog::warn("the file of blob {} stays: {}", digest.sha256(), std::string(removed.message()));
    }
  }
}

absl::StatusOr<std::unique_ptr<BlobStore>> openBlobStore(const std::string& folder, const BlobStoreOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<BlobFolder> opened, BlobFolder::open(folder, options));
  auto store = std::make_unique<FileBlobStore>(std::move(opened), options);
  TESSERA_RETURN_IF_ERROR(store->count());
  return store;
}

}  // namespace tessera::storage
