// Uploads of blobs that are objects of an object store.
#include <spdlog/spdlog.h>

#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "storage/cached_blob_store_impl.h"
#include "storage/local_blob_file.h"

namespace tessera::storage {
namespace {

/// Interval at which an upload looks whether an earlier object of its name has been removed.
constexpr std::chrono::milliseconds kClaimPause(100);

}  // namespace

/// An upload to the local folder, whose commit() also stores the object.
class CachedBlobStore::PublishingUpload : public Upload {
 public:
  PublishingUpload(CachedBlobStore& store, v1::Digest digest, std::string project = "")
      : store_(store),
        digest_(std::move(digest)),
        project_(std::move(project)),
        counted_(store.uploads_, digest_.sha256()) {
    keepLocal(digest_.sha256());
  }

  ~PublishingUpload() override {
    inner_.reset();
    if (committed_) store_.published_.remove(digest_.sha256());  // its row exists, if it was wanted
    pins_.clear();
    store_.makeRoom(0);
    if (project_.empty() || digest_.size_bytes() < SharedPartials::kMinBytes) return;
    // Not reported: the client has left, and the bytes are still in the local folder.
    if (const absl::Status shared = shareOrRemove(); !shared.ok()) {
      spdlog::warn("the unfinished upload of {} can be resumed on this server only: {}", digest_.sha256(),
                   std::string(shared.message()));
    }
  }

  void begin(std::unique_ptr<Upload> inner) { inner_ = std::move(inner); }
  void keepLocal(const std::string& sha256) {
    pins_.push_back(std::make_unique<CacheIndex::Pin>(store_.index_, sha256));
  }

  absl::Status write(std::string_view data) override { return inner_->write(data); }
  absl::Status commit() override {
    const absl::Status complete = inner_->commit();
    // Its parts are wrong, so that it must not be resumed with them.
    if (absl::IsDataLoss(complete) && !project_.empty()) (void)store_.partials_.remove(digest_, project_);
    TESSERA_RETURN_IF_ERROR(complete);
    TESSERA_RETURN_IF_ERROR(store_.publish(digest_));
    committed_ = true;
    return absl::OkStatus();
  }

 private:
  absl::Status shareOrRemove() {
    if (committed_) return store_.partials_.remove(digest_, project_);
    TESSERA_RETURN_IF_ERROR(store_.partials_.store(digest_, project_));
    return store_.removeAbandoned();
  }

  CachedBlobStore& store_;
  const v1::Digest digest_;
  const std::string project_;
  const UploadCounts::Counted counted_;
  std::vector<std::unique_ptr<CacheIndex::Pin>> pins_;
  std::unique_ptr<Upload> inner_;
  bool committed_ = false;
};

absl::StatusOr<std::optional<SharedPartials::Found>> CachedBlobStore::partialElsewhere(const v1::Digest& digest,
                                                                                       const Uploader& sender,
                                                                                       int64_t here) {
  std::optional<SharedPartials::Found> found;
  if (!sender.project.empty() && digest.size_bytes() >= SharedPartials::kMinBytes) {
    TESSERA_ASSIGN_OR_RETURN(found, partials_.find(digest, sender.project));
  }
  if (found && found->bytes <= here) found.reset();
  return found;
}

/// Removes unfinished uploads that nobody continued; at most once a day.
absl::Status CachedBlobStore::removeAbandoned() {
  {
    const std::lock_guard lock(check_mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (swept_ && now - *swept_ < kSweepInterval) return absl::OkStatus();
    swept_ = now;
  }
  TESSERA_RETURN_IF_ERROR(partials_.removeStale(options_.local.partial_lifetime_seconds).status());
  return objects_->removeIncomplete(kIncompleteLifetimeS).status();
}

/// Whether the blob exists; INVALID_ARGUMENT if it exists with another size, which a sender without access is not told.
absl::StatusOr<bool> CachedBlobStore::presentAs(const v1::Digest& digest, const Uploader& sender) {
  const absl::StatusOr<int64_t> size = this->size(digest.sha256());
  if (absl::IsNotFound(size.status())) return false;
  TESSERA_RETURN_IF_ERROR(size.status());
  if (*size == digest.size_bytes()) return true;
  if (sender.require_proof) return false;
  return absl::InvalidArgumentError(absl::StrCat("digest: found ", digest.sha256(), " of ", digest.size_bytes(),
                                                 " bytes; accepted: its size, which is ", *size));
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> CachedBlobStore::startUpload(const v1::Digest& digest,
                                                                                int64_t offset,
                                                                                const Uploader& sender) {
  if (becomesRow(digest.size_bytes())) {
    dropStaleCopy(digest.sha256());
    return local_->startUpload(digest, offset, sender);
  }
  TESSERA_ASSIGN_OR_RETURN(const bool present, presentAs(digest, sender));
  const auto nothing = [] { return absl::OkStatus(); };
  if (present && !sender.require_proof) return std::make_unique<ExistingBlobUpload>(nothing);
  if (present && offset == 0) return std::make_unique<ProofUpload>(digest, nothing);
  const Uploader here{sender.project, true};
  std::optional<SharedPartials::Found> elsewhere;
  if (offset > 0) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t kept, local_->committedBytes(digest, here));
    if (offset > kept) {
      TESSERA_ASSIGN_OR_RETURN(elsewhere, partialElsewhere(digest, sender, kept));
    }
  }
  if (elsewhere) {
    index_.remove(digest.sha256());
    TESSERA_RETURN_IF_ERROR(local_->removeFile(digest.sha256()));  // a copy would be verified instead of a partial file
    TESSERA_ASSIGN_OR_RETURN(const int64_t kept, local_->committedBytes(digest, here));
    TESSERA_ASSIGN_OR_RETURN(const auto begun, local_->startUpload(digest, kept, here));
    TESSERA_RETURN_IF_ERROR(partials_.fetch(*elsewhere, kept, *begun));
  }
  auto upload = std::make_unique<PublishingUpload>(*this, digest, sender.project);
  makeRoom(digest.size_bytes());
  TESSERA_ASSIGN_OR_RETURN(auto inner, local_->startUpload(digest, offset, here));
  upload->begin(std::move(inner));
  return upload;
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> CachedBlobStore::startComposed(const v1::Digest& digest,
                                                                                  const std::vector<Part>& parts,
                                                                                  DigestSource hashed) {
  TESSERA_ASSIGN_OR_RETURN(const bool present, presentAs(digest, {}));
  if (present) return std::make_unique<ExistingBlobUpload>([] { return absl::OkStatus(); });
  auto upload = std::make_unique<PublishingUpload>(*this, digest);
  for (const Part& part : parts) {
    if (part.sha256.empty()) continue;
    upload->keepLocal(part.sha256);
    if (!isLocal(part.sha256)) TESSERA_RETURN_IF_ERROR(fetch(part.sha256));
  }
  TESSERA_ASSIGN_OR_RETURN(auto inner, local_->startComposed(digest, parts, hashed));
  upload->begin(std::move(inner));
  return upload;
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> CachedBlobStore::startPlaced(const v1::Digest& digest,
                                                                                const std::string& name) {
  TESSERA_ASSIGN_OR_RETURN(const bool present, presentAs(digest, {}));
  if (present) return std::make_unique<ExistingBlobUpload>([] { return absl::OkStatus(); });
  auto upload = std::make_unique<PublishingUpload>(*this, digest);
  TESSERA_ASSIGN_OR_RETURN(auto inner, local_->startPlaced(digest, name));
  upload->begin(std::move(inner));
  return upload;
}

int64_t CachedBlobStore::nowMicros() const {
  if (options_.now_us) return options_.now_us();
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Tells collections on other servers that the object is about to be relied on: a row that is marked as lost and was
/// just used. ABORTED while another server removes the object.
absl::Status CachedBlobStore::tryClaim(const v1::Digest& digest) {
  const std::string& sha256 = digest.sha256();
  const int64_t now_us = nowMicros();
  return store_.transact([&](Transaction& tx) -> absl::Status {
    const absl::StatusOr<int64_t> used_us = tx.lastUse(Kind::kBlob, sha256);
    if (absl::IsNotFound(used_us.status())) {
      TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, ""));
      TESSERA_RETURN_IF_ERROR(tx.markBlobLost(sha256));
    } else {
      TESSERA_RETURN_IF_ERROR(used_us.status());
      TESSERA_ASSIGN_OR_RETURN(const bool removal, tx.isBlobBeingRemoved(sha256));
      if (removal && now_us - *used_us < kLongestRemovalUs) return absl::AbortedError("the object is being removed");
      if (removal) TESSERA_RETURN_IF_ERROR(tx.markBlobLost(sha256));
    }
    return tx.touch(Kind::kBlob, sha256, now_us);
  });
}

absl::Status CachedBlobStore::claim(const v1::Digest& digest) {
  const auto give_up = std::chrono::steady_clock::now() + options_.claim_patience;
  do {
    const absl::Status claimed = tryClaim(digest);
    if (!absl::IsAborted(claimed)) return claimed;
    std::this_thread::sleep_for(std::min(kClaimPause, options_.claim_patience));
  } while (std::chrono::steady_clock::now() < give_up);
  return absl::UnavailableError(absl::StrCat("blob ", digest.sha256(), " is just being deleted; send it again later"));
}

/// Removes the object of a blob whose row was erased. A row with a mark keeps other servers from storing the object
/// while it is removed; without the mark, their object would be removed in place of the discarded one.
absl::Status CachedBlobStore::removeDiscarded(const v1::Digest& digest) {
  const std::string& sha256 = digest.sha256();
  const int64_t now_us = nowMicros();
  bool begun = false;
  TESSERA_RETURN_IF_ERROR(store_.transact([&](Transaction& tx) -> absl::Status {
    begun = false;
    absl::Status row = tx.lastUse(Kind::kBlob, sha256).status();
    if (!absl::IsNotFound(row)) return row;  // stored again, or about to be
    if (const auto bytes = tx.blobBytesSize(sha256); !absl::IsNotFound(bytes.status())) {
      return bytes.ok() ? tx.eraseBlobBytes(sha256) : bytes.status();
    }
    TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, ""));
    TESSERA_RETURN_IF_ERROR(tx.touch(Kind::kBlob, sha256, now_us));
    begun = true;
    return tx.beginBlobRemoval(sha256);
  }));
  if (!begun) return absl::OkStatus();
  absl::Status removed = removeFile(sha256);
  TESSERA_RETURN_IF_ERROR(store_.transact([&](Transaction& tx) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const bool removal, tx.isBlobBeingRemoved(sha256));
    if (!removal) return absl::OkStatus();  // its bytes have become a row, or its row is gone
    return removed.ok() ? tx.erase(Kind::kBlob, sha256) : tx.markBlobLost(sha256);
  }));
  return removed;
}

/// Stores the object of a blob that is complete in the local folder.
absl::Status CachedBlobStore::publish(const v1::Digest& digest) {
  const std::string& sha256 = digest.sha256();
  if (contains(sha256)) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(objects_->report(checkMark()));
  // Before the lock: who holds it must not wait for the database's writer, which may wait for the lock.
  TESSERA_RETURN_IF_ERROR(claim(digest));
  publishing_.startWhenFree(sha256);
  const absl::Cleanup end = [&] { publishing_.end(sha256); };
  if (contains(sha256)) return absl::OkStatus();
  absl::Status stored = objects_->put(objectOf(sha256), LocalBlobFile(*local_, digest), digest);
  if (absl::IsDataLoss(stored)) {
    (void)local_->get(sha256, 0, 0, [](std::string_view) { return absl::OkStatus(); });  // moves it aside
    return stored;
  }
  index_.add(sha256, digest.size_bytes());
  if (!stored.ok()) return stored;
  published_.add(sha256, digest.size_bytes());
  lost_.remove(sha256);
  damaged_.remove(sha256);
  return absl::OkStatus();
}

}  // namespace tessera::storage
