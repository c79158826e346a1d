#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::storage {

class FileSystem;
class Store;

/// Blobs by SHA-256: large ones are files below one folder, small ones rows of the database. Thread-safe.
///
/// A file is written to a partial one, hashed, fsynced, renamed into place, its folder fsynced; only then
/// may a database row refer to it. A crash at any point leaves either the whole blob or a partial file
/// from which an upload resumes. A row is durable with the transaction that puts it: what calls put() or commit() in a
/// transaction of the database, on its thread, has the bytes and what refers to them made durable by one sync.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  /// Whether the bytes of a new blob of this size become a row, so that put() and commit() of it belong into the
  /// transaction that refers to it. Those of files do not: they sync while the writer waits.
  virtual bool becomesRow(int64_t bytes) const = 0;

  virtual bool contains(const std::string& sha256) = 0;
  virtual std::vector<v1::Digest> missing(const std::vector<v1::Digest>& digests) = 0;

  /// Who uploads. What one has sent of a blob nobody else goes on with: whoever has the whole in the end has sent it
  /// all.
  struct Sender {
    std::string project = {};  ///< empty: nobody in particular (a worker)
    /// The bytes are asked for, hashed and compared even where the blob is present, and then written nowhere.
    bool must_prove = false;
  };

  /// Bytes safely received of an unfinished upload; the whole size when the blob is present and need not be proved.
  virtual absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest, const Sender& sender) = 0;
  absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest) { return committedBytes(digest, {}); }

  /// One upload in progress. Those of the same digest go on side by side, each with bytes of its own, and the first
  /// whole one makes the blob. What is kept of those that break off is the most that one of the project's had.
  class Upload {
   public:
    virtual ~Upload() = default;  ///< keeps the partial file
    virtual absl::Status write(std::string_view data) = 0;
    /// Durable when OK. DATA_LOSS (and the partial file is discarded) when size or hash differ. When the disk fails,
    /// the partial file is discarded too: what a failed sync left in the page cache looks whole and is not.
    virtual absl::Status commit() = 0;
  };
  /// `offset` must be what committedBytes answered (or less, while another upload of the blob goes on), or 0 to start
  /// over; else FAILED_PRECONDITION.
  /// When the blob is present already, the upload takes and ignores the data and commits at once.
  /// INVALID_ARGUMENT for a malformed digest or one whose size is not the stored blob's, RESOURCE_EXHAUSTED above the
  /// size limit, the quota, or when the disk would be left with less than the reserve.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset,
                                                              const Sender& sender) = 0;
  absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset) {
    return startUpload(digest, offset, {});
  }

  /// A piece of a blob that is put together here.
  struct Part {
    std::string sha256;  ///< of a blob that is there, whose bytes are then shared; empty: its bytes are sent
    int64_t bytes = 0;
  };
  /// Whose word a digest is: anybody's, or that of somebody who may write here, who could as well change the bytes.
  enum class Hashed { kByAnybody, kHere };
  /// An upload of the parts that are sent, one after another; commit() verifies the whole, which is a pass over the
  /// bytes, unless it was hashed here. NOT_FOUND when a blob that is to be a part is absent; INVALID_ARGUMENT when
  /// sizes do not add up. Of a blob that is there nothing is taken.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest,
                                                                const std::vector<Part>& parts, Hashed hashed) = 0;
  absl::StatusOr<std::unique_ptr<Upload>> startComposed(const v1::Digest& digest, const std::vector<Part>& parts) {
    return startComposed(digest, parts, Hashed::kByAnybody);
  }
  /// Takes in a whole file that somebody who may write here has hashed and put among the partial ones, as `name`
  /// (proto/messages/blob_place.h): its bytes are neither copied nor read. commit() makes it durable; nothing is
  /// written.
  virtual absl::StatusOr<std::unique_ptr<Upload>> startPlaced(const v1::Digest& digest, const std::string& name) = 0;

  /// Bytes of a project's unfinished uploads: of those in progress what they announced, of others what came. That of
  /// one digest is left out.
  virtual int64_t unfinishedBytes(const std::string& project, const std::string& but_sha256) = 0;

  /// Stores bytes that are at hand.
  virtual absl::StatusOr<v1::Digest> put(std::string_view bytes) = 0;
  /// The same, of which the caller has computed the digest.
  virtual absl::Status put(const v1::Digest& digest, std::string_view bytes) = 0;

  /// Reads [offset, offset + limit) in chunks; limit 0 = to the end. A read of the whole blob verifies its
  /// hash: on a mismatch the bytes are set aside and the last answer is DATA_LOSS.
  virtual absl::Status get(const std::string& sha256, int64_t offset, int64_t limit,
                           const std::function<absl::Status(std::string_view chunk)>& sink) = 0;
  virtual absl::StatusOr<int64_t> size(const std::string& sha256) = 0;

  /// Removes a blob's file or its row of bytes, if it is there. ABORTED while it is uploaded. Whoever calls this knows
  /// that no row speaks of the blob, and that none will before the call returns (server/retention).
  virtual absl::Status remove(const std::string& sha256) = 0;
  /// Calls `visit` for every blob, in no order, with its size and the age of its file or row; ends with its first
  /// error.
  virtual absl::Status forEach(
      const std::function<absl::Status(const std::string& sha256, int64_t bytes, int64_t age_s)>& visit) = 0;
  /// Blobs that were found damaged, set aside, and not sent again since.
  virtual absl::StatusOr<std::vector<std::string>> damaged() = 0;
  /// Removes partial files that nobody touched for their lifetime; how many.
  virtual absl::StatusOr<int> removeStalePartials() = 0;

  /// Writes a few bytes where uploads go, and removes them. The error is the one an upload would meet. Does not sync.
  virtual absl::Status checkWritable() = 0;
  /// Bytes that may still be written where blobs lie.
  virtual absl::StatusOr<int64_t> freeBytes() = 0;
};

struct BlobStoreOptions {
  int64_t max_blob_bytes = int64_t{64} << 30;
  /// Partial files that nobody touched for this long are removed when the store is opened.
  int64_t partial_lifetime_seconds = 604'800;  // a week
  /// Quota of all blobs together, unfinished uploads included; 0 = none. With one, opening the store looks at every
  /// blob's size.
  int64_t max_total_bytes = 0;
  /// Left free on the disk, so that the database beside the blobs can always be written.
  int64_t reserve_bytes = 0;
  FileSystem* files = nullptr;  ///< null: the operating system's; must outlive the store
  /// The database in which small blobs are rows; must outlive the store. Null: all are files.
  Store* rows = nullptr;
  /// What is larger is a file. A file costs four syncs and a row none of its own, but its bytes are written twice, to
  /// the log and to the database, and pass through their caches.
  int64_t most_row_bytes = int64_t{64} << 10;
};

/// The store below `folder` (made when absent). What was a file before there were rows stays one and is read as ever:
///
///     ab/cd/abcd...   whole blobs, by the first two bytes of their SHA-256
///     tmp/abcd...     unfinished uploads, of projects as abcd....PROJECT; those beside another one as
///     abcd...-NUMBER... corrupt/        files whose content no longer has their name's hash, for the operator to look
///     at
absl::StatusOr<std::unique_ptr<BlobStore>> openBlobStore(const std::string& folder,
                                                         const BlobStoreOptions& options = {});

}  // namespace tessera::storage
