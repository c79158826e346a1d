#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::storage {

class FileSystem;
class Store;
struct ObjectRequests;

/// Content-addressed blobs: large ones are files below one folder, small ones rows of the database. Thread-safe.
///
/// A file is written under a temporary name, hashed, fsynced and renamed, and its folder is fsynced; only then may a
/// database row refer to it. A crash leaves either the whole blob or a partial file from which an upload resumes. A row
/// becomes durable with its transaction: if put() or commit() is called inside a database transaction, on its thread,
/// one sync makes both the bytes and the references to them durable.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  /// Whether a new blob of this size becomes a row. If so, call put() and commit() inside the transaction that refers
  /// to it; if not, call them outside, because they sync and would block the writer.
  virtual bool becomesRow(int64_t bytes) const = 0;

  virtual bool contains(const std::string& sha256) = 0;
  virtual std::vector<v1::Digest> missing(const std::vector<v1::Digest>& digests) = 0;

  /// The uploader. A partial upload can be resumed only by the same project, so a project that completes a blob has
  /// sent all its bytes.
  struct Uploader {
    std::string project = {};  ///< empty: no project (a worker)
    /// Whether the bytes must be sent and are verified even if the blob exists; they are then dropped. Without the
    /// proof a project that knows only the digest of another project's blob could gain access to its bytes.
    bool require_proof = false;
  };

  /// Bytes received durably of a partial upload; the full size if the blob exists and needs no proof.
  virtual absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest, const Uploader& sender) = 0;
  absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest) { return committedBytes(digest, {}); }

  /// One upload in progress. Concurrent uploads of one digest have separate partial files, and the first to complete
  /// creates the blob. Of a project's interrupted uploads, the longest partial file is kept.
  class Upload {
   public:
    virtual ~Upload() = default;  ///< keeps the partial file
    virtual absl::Status write(std::string_view data) = 0;
    /// Makes the blob durable. DATA_LOSS if size or hash differ; the partial file is then discarded. It is also
    /// discarded after a disk error, since pages that could not be written may still read back correctly. May be
    /// called again, with the same result, because the body of a transaction may run several times.
    virtual absl::Status commit() = 0;
  };
  /// `offset` is the position of the first byte that will be written. It must be the result of committedBytes(), so
  /// that the upload continues the partial file without a gap (less while another upload of the blob is in progress,
  /// which may hold the longer file), or 0 to start over; otherwise FAILED_PRECONDITION. If the blob exists, the upload
  /// accepts and ignores the data, and commits at once. INVALID_ARGUMENT: a malformed digest, or a size other than the
  /// stored blob's. RESOURCE_EXHAUSTED: the size limit, the quota or the disk reserve would be exceeded.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset,
                                                              const Uploader& sender) = 0;
  absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset) {
    return startUpload(digest, offset, {});
  }

  /// A part of a composed blob.
  struct Part {
    std::string sha256;  ///< an existing blob, whose bytes are then shared; empty: the bytes are sent
    int64_t bytes = 0;
  };
  /// Who computed the digest: an untrusted client, or a process with write access to this folder.
  enum class DigestSource { kUntrusted, kTrusted };
  /// Starts an upload of the parts that are sent, one after another. commit() verifies the digest of the whole, which
  /// reads all bytes, unless it was hashed here. NOT_FOUND if a blob named by a part does not exist; INVALID_ARGUMENT
  /// if the sizes do not add up. If the blob exists, the data are ignored.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest,
                                                                const std::vector<Part>& parts,
                                                                DigestSource hashed) = 0;
  absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest, const std::vector<Part>& parts) {
    return startComposed(digest, parts, DigestSource::kUntrusted);
  }
  /// Takes over a complete file that a process with write access has hashed and placed in the folder for partial files
  /// as `name` (proto/messages/blob_path.h). The bytes are neither copied nor read. commit() makes the file durable;
  /// write() is not used.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startPlaced(const v1::Digest& digest, const std::string& name) = 0;

  /// Bytes of a project's unfinished uploads, except that of one digest: announced sizes of uploads in progress,
  /// received bytes of others.
  virtual int64_t unfinishedBytes(const std::string& project, const std::string& but_sha256) = 0;

  /// Stores the given bytes. Within a transaction, an object store is not asked: the blob becomes a row, whatever its
  /// size.
  virtual absl::StatusOr<v1::Digest> put(std::string_view bytes) = 0;
  /// Likewise, with a digest that the caller computed.
  virtual absl::Status put(const v1::Digest& digest, std::string_view bytes) = 0;

  /// Reads [offset, offset + limit) in chunks; limit 0 = to the end. A read of the whole blob verifies its digest. On a
  /// mismatch the bytes are moved aside and DATA_LOSS is returned after the last chunk.
  virtual absl::Status get(const std::string& sha256, int64_t offset, int64_t limit,
                           const std::function<absl::Status(std::string_view chunk)>& sink) = 0;
  virtual absl::StatusOr<int64_t> size(const std::string& sha256) = 0;

  /// Removes the file or row of a blob, if it exists. ABORTED during an upload of it. The caller ensures that no
  /// database row refers to the blob until the call returns (server/retention).
  virtual absl::Status remove(const std::string& sha256) = 0;
  /// Likewise, but keeps a row with the bytes: removes only the file or, if the blobs are in an object store, the
  /// object and its local copy. With an object store it sends a request, so call it outside of transactions.
  virtual absl::Status removeFile(const std::string& sha256) = 0;
  /// Removes the bytes of blobs whose rows a transaction has erased, unless they have been stored again since. Files
  /// are removed before the call returns, objects of an object store later by another thread. Call it after the commit.
  /// What remains after an error or the end of the process is found by a collection.
  virtual void discard(const std::vector<v1::Digest>& digests);
  /// Visits all blobs in unspecified order, with size and age of the file or row; stops at the first error.
  virtual absl::Status forEach(
      const std::function<absl::Status(const std::string& sha256, int64_t bytes, int64_t age_s)>& visit) = 0;
  /// Blobs that were found damaged and moved aside, and not uploaded again since.
  virtual absl::StatusOr<std::vector<std::string>> damaged() = 0;
  /// Of these blobs, sorted by name, those whose bytes are missing. Looks for the bytes themselves; contains() may rely
  /// on the rows.
  virtual absl::StatusOr<std::vector<std::string>> findAbsent(const std::vector<std::string>& sha256s) = 0;
  /// Reads a whole blob to verify its digest, as get() does, and passes the bytes to `sink`. Reads the durable copy,
  /// not a cached one.
  virtual absl::Status verify(const std::string& sha256,
                              const std::function<absl::Status(std::string_view chunk)>& sink) {
    return get(sha256, 0, 0, sink);
  }
  /// Removes partial files that were unused for their lifetime, and returns their number.
  virtual absl::StatusOr<int> removeStalePartials() = 0;

  /// Writes and removes a small file in the upload folder, to detect errors that an upload would meet. Does not sync.
  virtual absl::Status checkWritable() = 0;
  /// Free disk space for blobs, in bytes.
  virtual absl::StatusOr<int64_t> freeBytes() = 0;

  /// Use of an object store, since this process began.
  struct RemoteStats {
    const ObjectRequests* requests;  ///< owned by this object
    int64_t cache_hits = 0, cache_misses = 0, cache_evictions = 0, cache_bytes = 0;
  };
  /// Nothing if the blobs are not in an object store.
  virtual std::optional<RemoteStats> remoteStats() { return std::nullopt; }
};

struct BlobStoreOptions {
  int64_t max_blob_bytes = int64_t{64} << 30;
  /// Unused partial files of this age are removed when the store is opened.
  int64_t partial_lifetime_seconds = 604'800;  // a week
  /// Quota for all blobs and unfinished uploads; 0 = none. With a quota, opening the store reads the size of each blob.
  int64_t max_total_bytes = 0;
  /// Free disk space kept for the database, which shares the disk with the blobs.
  int64_t reserve_bytes = 0;
  FileSystem* files = nullptr;  ///< null: the operating system's file system; must outlive the store
  /// Database for small blobs; must outlive the store. Null: all blobs are files.
  Store* rows = nullptr;
  /// Larger blobs are files. A file costs four syncs and a row none of its own; but the bytes of a row are written
  /// twice, to the log and to the database, and occupy their caches.
  int64_t most_row_bytes = int64_t{64} << 10;
};

/// Opens the store below `folder`, and creates it if absent. Blobs that were files before rows existed remain files.
/// Layout:
///
///     ab/cd/abcd...             whole blobs, by the first two bytes of their SHA-256
///     tmp/abcd...               unfinished uploads of workers
///     tmp/abcd....PROJECT       unfinished uploads of projects
///     tmp/abcd...-NUMBER...     further concurrent uploads of the same blob
///     corrupt/                  files whose content does not match their digest, for an operator
absl::StatusOr<std::unique_ptr<BlobStore>> openBlobStore(const std::string& folder,
                                                         const BlobStoreOptions& options = {});

}  // namespace tessera::storage
