#include "storage/cached_blob_store.h"

#include <spdlog/spdlog.h>

#include <map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "storage/blobs_place.h"
#include "storage/bucket_mark.h"
#include "storage/cached_blob_store_impl.h"
#include "storage/local_blob_file.h"

namespace tessera::storage {

/// Reads which copies the local folder holds, the least recently written first.
absl::Status CachedBlobStore::open() {
  std::vector<std::pair<int64_t, v1::Digest>> aged;
  TESSERA_RETURN_IF_ERROR(local_->forEach([&](const std::string& sha256, int64_t bytes, int64_t age_s) {
    if (!rows_.size(sha256).ok()) aged.emplace_back(age_s, makeDigest(sha256, bytes));
    return absl::OkStatus();
  }));
  std::ranges::sort(aged, std::greater<>(), [](const auto& copy) { return copy.first; });
  std::vector<v1::Digest> copies;
  for (auto& [age_s, digest] : aged) copies.push_back(std::move(digest));
  TESSERA_RETURN_IF_ERROR(checkWritable());
  TESSERA_ASSIGN_OR_RETURN(const std::string place, readBlobsPlace(folder_, files_));
  if (!place.empty() && place != objects_->placeOf("")) {
    return absl::FailedPreconditionError(absl::StrCat("the blobs of this data folder are in ", place, ", not in ",
                                                      objects_->placeOf(""), "; start with --blobs and that place"));
  }
  const absl::Status marked = checkMark();
  if (absl::IsUnavailable(marked)) {
    spdlog::warn("{}", std::string(marked.message()));
  } else {
    TESSERA_RETURN_IF_ERROR(marked);
  }
  if (place.empty()) {
    TESSERA_RETURN_IF_ERROR(adopt(copies));
    TESSERA_RETURN_IF_ERROR(writeBlobsPlace(folder_, files_, objects_->placeOf("")));
  }
  for (const v1::Digest& digest : copies) index_.add(digest.sha256(), digest.size_bytes());
  makeRoom(0);
  return absl::OkStatus();
}

/// Whether the object store is this database's. Asked again from time to time, since an operator may have given it to
/// another one.
absl::Status CachedBlobStore::checkMark() {
  const std::lock_guard lock(mark_mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (marked_at_ && now - *marked_at_ < kMarkInterval) return absl::OkStatus();
  const absl::Status marked = bindObjects(store_, *raw_objects_, marked_at_ ? kNoMark : options_.replaces_mark);
  if (marked.ok()) marked_at_ = now;
  return marked;
}

/// Stores the blobs that so far only the local folder has. May be repeated after a failure.
absl::Status CachedBlobStore::adopt(const std::vector<v1::Digest>& copies) {
  TESSERA_RETURN_IF_ERROR(checkMark());
  std::map<std::string, int64_t> blobs;
  TESSERA_RETURN_IF_ERROR(store_.read([&](Reader& reader) -> absl::Status {
    for (const v1::Digest& digest : copies) {
      TESSERA_ASSIGN_OR_RETURN(const bool exists, reader.hasBlob(digest.sha256()));
      if (exists) blobs[digest.sha256()] = digest.size_bytes();
    }
    return absl::OkStatus();
  }));
  std::vector<std::string> names;
  for (const auto& [sha256, bytes] : blobs) names.push_back(sha256);
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> absent, unlisted(names));
  for (const std::string& sha256 : absent) {
    const v1::Digest digest = makeDigest(sha256, blobs[sha256]);
    const absl::Status stored = objects_->put(objectOf(sha256), LocalBlobFile(*local_, digest), digest);
    if (!absl::IsDataLoss(stored)) TESSERA_RETURN_IF_ERROR(stored);  // damaged files are found when they are read
  }
  if (!absent.empty()) {
    spdlog::info("stored {} blobs of {} in {}", absent.size(), folder_, objects_->placeOf(""));
  }
  return absl::OkStatus();
}

/// DATA_LOSS if the local copy has another size than the blob. A read of a part would not notice.
absl::Status CachedBlobStore::checkSizeOfCopy(const std::string& sha256) {
  const absl::StatusOr<int64_t> copy = local_->size(sha256), blob = size(sha256);
  return copy.ok() && blob.ok() && *copy != *blob ? absl::DataLossError("the copy has another size") : absl::OkStatus();
}

absl::Status CachedBlobStore::get(const std::string& sha256, int64_t offset, int64_t limit,
                                  const std::function<absl::Status(std::string_view chunk)>& sink) {
  int64_t delivered = 0;
  const auto counted = [&](std::string_view chunk) {
    delivered += static_cast<int64_t>(chunk.size());
    return sink(chunk);
  };
  const CacheIndex::Pin pin(index_, sha256);
  absl::Status status = offset == 0 && limit == 0 ? absl::OkStatus() : checkSizeOfCopy(sha256);
  if (status.ok()) status = local_->get(sha256, offset, limit, counted);
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) {
    index_.touch(sha256);
    ++hits_;
    return status;
  }
  if (absl::IsDataLoss(status)) {
    spdlog::warn("the local copy of blob {} is damaged; it is fetched again", sha256);
    index_.remove(sha256);
    (void)local_->removeFile(sha256);
  }
  ++misses_;
  TESSERA_ASSIGN_OR_RETURN(const int64_t bytes, size(sha256));
  if (bytes > options_.cache_bytes) {
    return delivered == 0 ? passThrough(sha256, offset, limit, sink) : absl::UnavailableError("read it again");
  }
  const absl::Status fetched = fetch(sha256);
  // The disk is full.
  if (absl::IsResourceExhausted(fetched) && delivered == 0) return passThrough(sha256, offset, limit, sink);
  if (absl::IsNotFound(fetched) && absl::IsDataLoss(status)) return status;  // a damaged row has no object
  TESSERA_RETURN_IF_ERROR(fetched);
  if (delivered > 0) {
    return absl::UnavailableError(
        absl::StrCat("the local copy of blob ", sha256, " was damaged and has been replaced; read it again"));
  }
  return local_->get(sha256, offset, limit, sink);
}

/// Fetches a local copy, if there is none. The caller has pinned the blob.
absl::Status CachedBlobStore::fetch(const std::string& sha256) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t bytes, size(sha256));
  fetching_.startWhenFree(sha256);
  const absl::Cleanup end = [&] { fetching_.end(sha256); };
  if (isLocal(sha256)) return absl::OkStatus();
  makeRoom(bytes);
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {  // a second time, in case the bytes were damaged on the way
    TESSERA_ASSIGN_OR_RETURN(const auto copy, local_->startUpload(makeDigest(sha256, bytes), 0, {}));
    status = objects_->get(objectOf(sha256), 0, 0, [&](std::string_view chunk) { return copy->write(chunk); });
    if (status.ok()) status = copy->commit();
    if (status.ok()) index_.add(sha256, bytes);
    if (!absl::IsDataLoss(status)) break;
  }
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
    noteLost(sha256, std::string(status.message()));
    if (absl::IsDataLoss(status)) damaged_.add(sha256, bytes);
    return absl::Status(status.code(), absl::StrCat("object ", objects_->placeOf(objectOf(sha256)),
                                                    absl::IsNotFound(status) ? " is gone" : " has wrong bytes"));
  }
  return status;
}

absl::Status CachedBlobStore::passThrough(const std::string& sha256, int64_t offset, int64_t limit,
                                          const std::function<absl::Status(std::string_view chunk)>& sink) {
  const absl::Status status =
      offset == 0 && limit == 0 ? verify(sha256, sink) : objects_->get(objectOf(sha256), offset, limit, sink);
  if (absl::IsNotFound(status)) noteLost(sha256, std::string(status.message()));
  return status;
}

absl::Status CachedBlobStore::verify(const std::string& sha256,
                                     const std::function<absl::Status(std::string_view chunk)>& sink) {
  if (rows_.size(sha256).ok()) return local_->get(sha256, 0, 0, sink);
  Sha256 hash;
  int64_t bytes = 0;
  absl::Status status = objects_->get(objectOf(sha256), 0, 0, [&](std::string_view chunk) {
    hash.update(chunk);
    bytes += static_cast<int64_t>(chunk.size());
    return sink(chunk);
  });
  if (absl::IsNotFound(status)) noteLost(sha256, std::string(status.message()));
  if (!status.ok() || hash.finish() == sha256) return status;
  damaged_.add(sha256, bytes);
  noteLost(sha256, "its bytes do not match its digest");
  return absl::DataLossError(
      absl::StrCat("object ", objects_->placeOf(objectOf(sha256)), " has wrong bytes; upload the blob again"));
}

absl::Status CachedBlobStore::remove(const std::string& sha256) {
  // Any error but NOT_FOUND, such as one of the transaction around this call, leaves the object alone.
  if (const auto row = rows_.size(sha256); row.ok()) {
    TESSERA_RETURN_IF_ERROR(local_->remove(sha256));
  } else if (!absl::IsNotFound(row.status())) {
    return row.status();
  }
  return removeFile(sha256);
}

absl::Status CachedBlobStore::removeFile(const std::string& sha256) {
  const auto busy = [&] { return absl::AbortedError(absl::StrCat("blob ", sha256, " is being uploaded")); };
  // Does not wait: it may run in the transaction that an upload waits for.
  if (!publishing_.start(sha256)) return busy();
  const absl::Cleanup end = [&] { publishing_.end(sha256); };
  if (uploads_.any(sha256)) return busy();
  TESSERA_RETURN_IF_ERROR(objects_->report(checkMark()));
  TESSERA_RETURN_IF_ERROR(objects_->remove(objectOf(sha256)));
  published_.remove(sha256);
  index_.remove(sha256);
  const absl::Status local = local_->removeFile(sha256);
  return absl::IsAborted(local) ? absl::OkStatus() : local;  // only the copy, which is being read
}

absl::StatusOr<std::vector<std::string>> CachedBlobStore::findAbsent(const std::vector<std::string>& sha256s) {
  std::vector<std::string> wanted;
  for (const std::string& sha256 : sha256s) {
    if (isSha256(sha256) && !rows_.size(sha256).ok()) wanted.push_back(sha256);
  }
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> absent, unlisted(wanted));
  // A blob that was stored after the listing began is there.
  std::erase_if(absent, [this](const std::string& sha256) { return published_.has(sha256) || !contains(sha256); });
  // Listings of some services lag behind, and one that is cut off early looks complete, so each loss is confirmed.
  std::vector<std::string> lost;
  for (const std::string& sha256 : absent) {
    const absl::Status found = objects_->get(objectOf(sha256), 0, 1, [](std::string_view) { return absl::OkStatus(); });
    if (absl::IsNotFound(found)) {
      noteLost(sha256, "neither the listing nor a request for it finds it");
      lost.push_back(sha256);
    } else {
      TESSERA_RETURN_IF_ERROR(found);
      spdlog::warn("object {} is missing in the listing of its store", objects_->placeOf(objectOf(sha256)));
    }
  }
  return lost;
}

/// Of these names, which are sorted, those that the object store does not list.
absl::StatusOr<std::vector<std::string>> CachedBlobStore::unlisted(const std::vector<std::string>& wanted) {
  std::vector<std::string> absent;
  if (wanted.empty()) return absent;
  auto next = wanted.begin();
  const auto passTo = [&](const std::string& sha256) {
    for (; next != wanted.end() && *next < sha256; ++next) absent.push_back(*next);
    if (next != wanted.end() && *next == sha256) ++next;
  };
  TESSERA_RETURN_IF_ERROR(objects_->list(kObjectPrefix, objectOf(wanted.front().substr(0, wanted.front().size() - 1)),
                                         [&](const ObjectInfo& object) {
                                           passTo(object.name.substr(sizeof(kObjectPrefix) - 1));
                                           return next != wanted.end();
                                         }));
  absent.insert(absent.end(), next, wanted.end());
  return absent;
}

void CachedBlobStore::noteLost(const std::string& sha256, const std::string& why) {
  published_.remove(sha256);
  lost_.add(sha256, 0);
  spdlog::error("object {} of blob {} is lost: {}", objects_->placeOf(objectOf(sha256)), sha256, why);
}

absl::StatusOr<std::unique_ptr<BlobStore>> openCachedBlobStore(const std::string& local_folder,
                                                               std::unique_ptr<ObjectStore> objects,
                                                               const CachedBlobStoreOptions& options) {
  if (options.local.rows == nullptr || options.local.max_total_bytes != 0) {
    return absl::InvalidArgumentError("blobs in an object store need a database, and a quota of each project instead");
  }
  TESSERA_ASSIGN_OR_RETURN(auto local, openBlobStore(local_folder, options.local));
  auto store = std::make_unique<CachedBlobStore>(std::move(local), local_folder, std::move(objects), options);
  TESSERA_RETURN_IF_ERROR(store->open());
  return store;
}

}  // namespace tessera::storage
