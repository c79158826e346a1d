#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/blob_store.h"
#include "storage/objects/object_store.h"

namespace tessera::storage {

struct CachedBlobStoreOptions {
  /// Of the local folder. `rows` is required; `max_total_bytes` must be 0.
  BlobStoreOptions local = {};
  /// Bound of the local copies of blobs. Uploads in progress and a blob that is just being read may exceed it.
  int64_t cache_bytes = int64_t{16} << 30;
  /// The mark of the object store that is to be replaced by this database's (storage/bucket_mark.h).
  std::string replaces_mark = {};
  /// The clock of the rows' times of last use, in microseconds since 1970; empty: this machine's.
  std::function<int64_t()> now_us = {};
  /// How long an upload waits for the removal of an earlier object of its name; then UNAVAILABLE.
  std::chrono::milliseconds claim_patience{5000};
};

/// Opens a store whose blobs are objects of `objects`, which several servers may share, behind a local folder.
///
/// - The object store belongs to one database (storage/bucket_mark.h). If it cannot be reached when the store is
/// opened,
///   that is checked before the first object is written or deleted.
/// - The rows of the database say which blobs exist. No request asks the object store for a blob's existence or size.
///   Small blobs are rows, as without an object store.
/// - An upload goes to the local folder first, and resumes there. commit() verifies the digest, stores the object
///   "blobs/SHA256", and returns when it is durable. When a client's stream ends early, the bytes received become the
///   object "partials/...", so that the client may continue on another server.
/// - A read takes the local copy. If there is none, it fetches the whole object, verifies its digest, and keeps it; the
///   least recently used copies are deleted. A blob larger than the cache is passed through, in ranges.
/// - An object that is missing or has wrong bytes is logged and counts as absent (server/retention/losses.h marks its
///   row), until it is uploaded or built again.
/// - Before an object is written, its row is created, marked as lost, and touched. A collection deletes an object only
///   in the transaction that deletes a row unused for an hour, so a collection on another server spares this one.
absl::StatusOr<std::unique_ptr<BlobStore>> openCachedBlobStore(const std::string& local_folder,
                                                               std::unique_ptr<ObjectStore> objects,
                                                               const CachedBlobStoreOptions& options);

}  // namespace tessera::storage
