#pragma once

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/background_removal.h"
#include "storage/blob_rows.h"
#include "storage/blob_uploads.h"
#include "storage/cache_index.h"
#include "storage/cached_blob_store.h"
#include "storage/nested_transaction_scope.h"
#include "storage/objects/reporting_object_store.h"
#include "storage/recent_blobs.h"
#include "storage/shared_partials.h"

namespace tessera::storage {

/// Names of the objects that are blobs.
inline constexpr char kObjectPrefix[] = "blobs/";
inline std::string objectOf(const std::string& sha256) { return kObjectPrefix + sha256; }

inline v1::Digest makeDigest(const std::string& sha256, int64_t bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256);
  digest.set_size_bytes(bytes);
  return digest;
}

/// The implementation of openCachedBlobStore(): cached_blob_store.cpp reads, cached_uploads.cpp writes.
class CachedBlobStore : public BlobStore {
 public:
  CachedBlobStore(std::unique_ptr<BlobStore> local, const std::string& folder, std::unique_ptr<ObjectStore> objects,
                  const CachedBlobStoreOptions& options)
      : options_(options),
        raw_objects_(std::move(objects)),
        objects_(std::make_unique<ReportingObjectStore>(*raw_objects_)),
        local_(std::move(local)),
        store_(*options.local.rows),
        rows_(options.local.rows, options.local.most_row_bytes),
        folder_(folder),
        files_(options.local.files != nullptr ? *options.local.files : systemFiles()),
        partials_(*objects_, files_, folder),
        index_(options.cache_bytes) {}

  absl::Status open();

  bool becomesRow(int64_t bytes) const override { return local_->becomesRow(bytes); }
  bool contains(const std::string& sha256) override { return size(sha256).ok(); }

  absl::StatusOr<int64_t> size(const std::string& sha256) override {
    absl::StatusOr<int64_t> bytes = absl::UnknownError("not read");
    std::optional<int64_t> published = published_.find(sha256);
    TESSERA_RETURN_IF_ERROR(store_.read([&](Reader& reader) -> absl::Status {
      bytes = reader.blobBytesSize(sha256);
      if (absl::IsNotFound(bytes.status()) && !lost_.has(sha256)) bytes = reader.blobSize(sha256);
      if (!published || !absl::IsNotFound(bytes.status())) return absl::OkStatus();
      TESSERA_ASSIGN_OR_RETURN(const bool removal, reader.isBlobBeingRemoved(sha256));
      if (removal) {
        published.reset();
        published_.remove(sha256);
      }
      return absl::OkStatus();
    }));
    // The row decides from now on, unless it is one of a transaction that may be undone and run again.
    const NestedTransactionScope* around = NestedTransactionScope::of(store_);
    if (bytes.ok() && (around == nullptr || around->transaction() == nullptr)) published_.remove(sha256);
    if (!absl::IsNotFound(bytes.status())) return bytes;
    if (published) return *published;
    return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
  }

  std::vector<v1::Digest> missing(const std::vector<v1::Digest>& digests) override {
    std::vector<v1::Digest> missing;
    for (const v1::Digest& digest : digests) {
      if (!contains(digest.sha256())) missing.push_back(digest);
    }
    return missing;
  }

  absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest, const Uploader& sender) override {
    if (!sender.require_proof) {
      if (absl::StatusOr<int64_t> size = this->size(digest.sha256()); size.ok()) return size;
    }
    // With a proof, because a local copy does not mean that the blob exists.
    TESSERA_ASSIGN_OR_RETURN(const int64_t here, local_->committedBytes(digest, {sender.project, true}));
    TESSERA_ASSIGN_OR_RETURN(const auto elsewhere, partialElsewhere(digest, sender, here));
    return elsewhere ? elsewhere->bytes : here;
  }

  absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset,
                                                      const Uploader& sender) override;
  absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest, const std::vector<Part>& parts,
                                                        DigestSource hashed) override;
  absl::StatusOr<std::unique_ptr<Upload>> startPlaced(const v1::Digest& digest, const std::string& name) override;

  int64_t unfinishedBytes(const std::string& project, const std::string& but_sha256) override {
    return local_->unfinishedBytes(project, but_sha256);
  }

  absl::StatusOr<v1::Digest> put(std::string_view bytes) override {
    v1::Digest digest = makeDigest(sha256Hex(bytes), static_cast<int64_t>(bytes.size()));
    TESSERA_RETURN_IF_ERROR(put(digest, bytes));
    return digest;
  }
  absl::Status put(const v1::Digest& digest, std::string_view bytes) override {
    if (becomesRow(digest.size_bytes())) {
      dropStaleCopy(digest.sha256());
      return local_->put(digest, bytes);
    }
    if (contains(digest.sha256())) return absl::OkStatus();
    // The writer and the locks of a transaction must not wait for a network.
    if (NestedTransactionScope::of(store_) != nullptr) return rows_.put(digest.sha256(), bytes);
    absl::Status status;
    {
      const CacheIndex::Pin pin(index_, digest.sha256());
      status = local_->put(digest, bytes);
      if (status.ok()) status = publish(digest);
    }
    makeRoom(0);
    return status;
  }

  absl::Status get(const std::string& sha256, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override;
  absl::Status remove(const std::string& sha256) override;
  absl::Status removeFile(const std::string& sha256) override;
  void discard(const std::vector<v1::Digest>& digests) override { discarded_.add(digests); }

  absl::Status forEach(
      const std::function<absl::Status(const std::string& sha256, int64_t bytes, int64_t age_s)>& visit) override {
    const int64_t now = time(nullptr);
    TESSERA_RETURN_IF_ERROR(rows_.forEach(
        [&](const RowBlob& blob) { return visit(blob.sha256, blob.size, std::max<int64_t>(0, now - blob.time_s)); }));
    absl::Status status;
    TESSERA_RETURN_IF_ERROR(objects_->list(kObjectPrefix, "", [&](const ObjectInfo& object) {
      const std::string sha256 = object.name.substr(sizeof(kObjectPrefix) - 1);
      if (isSha256(sha256) && !rows_.size(sha256).ok()) status = visit(sha256, object.bytes, object.age_s);
      return status.ok();
    }));
    return status;
  }

  absl::StatusOr<std::vector<std::string>> damaged() override {
    std::vector<std::string> names = damaged_.names();
    std::erase_if(names, [this](const std::string& sha256) { return contains(sha256); });
    return names;
  }
  absl::StatusOr<std::vector<std::string>> findAbsent(const std::vector<std::string>& sha256s) override;
  absl::Status verify(const std::string& sha256,
                      const std::function<absl::Status(std::string_view chunk)>& sink) override;

  absl::StatusOr<int> removeStalePartials() override {
    TESSERA_RETURN_IF_ERROR(objects_->report(checkMark()));
    TESSERA_ASSIGN_OR_RETURN(const int here, local_->removeStalePartials());
    TESSERA_ASSIGN_OR_RETURN(const int shared, partials_.removeStale(options_.local.partial_lifetime_seconds));
    TESSERA_ASSIGN_OR_RETURN(const int incomplete, objects_->removeIncomplete(kIncompleteLifetimeS));
    return here + shared + incomplete;
  }

  /// Asks the object store at most once in kCheckInterval.
  absl::Status checkWritable() override {
    TESSERA_RETURN_IF_ERROR(local_->checkWritable());
    const std::lock_guard lock(check_mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!checked_ || now - *checked_ >= kCheckInterval) {
      check_ = raw_objects_->checkWritable();
      checked_ = std::chrono::steady_clock::now();
    }
    return check_;
  }
  absl::StatusOr<int64_t> freeBytes() override { return local_->freeBytes(); }

  std::optional<RemoteStats> remoteStats() override {
    const CacheIndex::Stats cache = index_.stats();
    return RemoteStats{&objects_->requests(), hits_, misses_, cache.evictions, cache.bytes};
  }

 private:
  /// For this long the process relies on an object that it has stored and that has no row yet. Much shorter than the
  /// time that a collection keeps unused blobs (server/queue/uses.h).
  static constexpr std::chrono::minutes kPublishedLifetime{1};
  /// For this long an object that was found missing or damaged counts as absent, although its row says otherwise: until
  /// the row is marked. If another server restores it meanwhile, it is at worst restored once more.
  static constexpr std::chrono::minutes kLostLifetime{1};
  static constexpr std::chrono::hours kDamagedLifetime{24 * 7};
  static constexpr std::chrono::seconds kCheckInterval{30};
  static constexpr std::chrono::minutes kMarkInterval{10};
  static constexpr std::chrono::hours kSweepInterval{24};
  static constexpr int64_t kIncompleteLifetimeS = 86'400;

  class PublishingUpload;

  absl::Status adopt(const std::vector<v1::Digest>& copies);
  absl::StatusOr<std::vector<std::string>> unlisted(const std::vector<std::string>& wanted);
  absl::StatusOr<std::optional<SharedPartials::Found>> partialElsewhere(const v1::Digest& digest,
                                                                        const Uploader& sender, int64_t here);
  absl::Status checkMark();
  absl::Status removeAbandoned();
  int64_t nowMicros() const;
  absl::Status tryClaim(const v1::Digest& digest);
  absl::Status claim(const v1::Digest& digest);
  absl::Status removeDiscarded(const v1::Digest& digest);
  absl::Status publish(const v1::Digest& digest);
  absl::Status fetch(const std::string& sha256);
  absl::Status checkSizeOfCopy(const std::string& sha256);
  absl::Status passThrough(const std::string& sha256, int64_t offset, int64_t limit,
                           const std::function<absl::Status(std::string_view chunk)>& sink);
  absl::StatusOr<bool> presentAs(const v1::Digest& digest, const Uploader& sender);
  void noteLost(const std::string& sha256, const std::string& why);
  void makeRoom(int64_t more) {
    for (const std::string& sha256 : index_.evict(more)) (void)local_->removeFile(sha256);
  }
  /// A copy without a row is no blob, but the local folder would take it for one.
  void dropStaleCopy(const std::string& sha256) {
    if (!contains(sha256) && index_.remove(sha256)) (void)local_->removeFile(sha256);
  }
  bool isLocal(const std::string& sha256) { return local_->size(sha256).ok(); }

  const CachedBlobStoreOptions options_;
  const std::unique_ptr<ObjectStore> raw_objects_;       ///< its errors are for the operator
  const std::unique_ptr<ReportingObjectStore> objects_;  ///< its errors are for clients
  const std::unique_ptr<BlobStore> local_;
  Store& store_;
  BlobRows rows_;
  const std::string folder_;
  FileSystem& files_;
  SharedPartials partials_;
  CacheIndex index_;
  /// Digests whose objects are being written or deleted, and whose local copies are being fetched.
  ActiveUploads publishing_, fetching_;
  UploadCounts uploads_;
  RecentBlobs published_{kPublishedLifetime}, lost_{kLostLifetime}, damaged_{kDamagedLifetime};
  std::atomic<int64_t> hits_ = 0, misses_ = 0;
  std::mutex mark_mutex_;
  std::optional<std::chrono::steady_clock::time_point> marked_at_;
  std::mutex check_mutex_;
  std::optional<std::chrono::steady_clock::time_point> checked_, swept_;
  absl::Status check_;
  /// Last member, so that its thread ends first.
  BackgroundRemoval discarded_{[this](const v1::Digest& digest) {
    if (const absl::Status removed = removeDiscarded(digest); !removed.ok() && !absl::IsAborted(removed)) {
      spdlog::warn("the object of blob {} stays until a collection: {}", digest.sha256(),
                   std::string(removed.message()));
    }
  }};
};

}  // namespace tessera::storage
