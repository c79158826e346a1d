#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// Deletes what the policy no longer keeps, and then the blobs that nothing refers to.
///
/// Candidates are chosen on a snapshot and checked again in the transaction that deletes them. Whatever starts to rely
/// on an artifact, an object or a blob after the snapshot (a job, a look-up before an upload, a result) touches it in
/// its own transaction (queue/uses.h), and there is one writer. Blobs are deleted in two steps: first their rows are
/// durably marked as lost; then the files are deleted, and the rows with them, unless the blob has been uploaded again.
/// At every crash point no row refers to a missing file; a later collection finds the rest.
class Collector {
 public:
  /// Reserves the right to collect, among all servers on the store, until the result is destroyed. ABORTED if another
  /// server collects.
  using Exclusion = std::function<absl::StatusOr<std::shared_ptr<void>>()>;
  /// `exclusion` may be empty: this server is alone.
  Collector(storage::Store& store, storage::BlobStore& blobs, Clock& clock, Exclusion exclusion = {})
      : store_(store), blobs_(blobs), clock_(clock), exclusion_(std::move(exclusion)) {}

  /// ABORTED while another collection is in progress.
  absl::StatusOr<v1::CollectGarbageResponse> collect(const v1::RetentionPolicy& policy, bool dry_run);

  /// Lists inconsistencies: objects that refer to missing blobs or to blobs of another size; with `read_blobs` also
  /// damaged files.
  absl::StatusOr<v1::VerifyStorageResponse> verify(bool read_blobs);

  /// Deletes one object of a project at an operator's request. NOT_FOUND if there is none; FAILED_PRECONDITION if
  /// another object needs it or it is pinned.
  absl::Status erase(const v1::DeleteRequest& request, const std::string& project);

  /// Ends a collection early. May be called from any thread.
  void stop() { stopping_ = true; }

 private:
  using Names = std::unordered_set<std::string>;
  struct Victim {
    storage::Kind kind;
    std::string id;
    int64_t bytes = 0;
  };

  /// Every SHA-256 that a stored object refers to. `living`: only objects that have not ended or are pinned; otherwise
  /// also the references of each project, as blobReferenceKey().
  absl::Status mark(storage::Reader& reader, bool living, Names& names) const;
  absl::Status chooseJobs(storage::Reader& reader, const v1::RetentionPolicy& policy, std::vector<Victim>& jobs,
                          std::vector<Victim>& events) const;
  absl::Status chooseByUse(storage::Reader& reader, storage::Kind kind, int64_t keep_us, int64_t keep_bytes,
                           const Names& living, std::vector<Victim>& victims) const;
  absl::Status chooseRecords(storage::Reader& reader, int64_t keep_us, std::vector<Victim>& victims) const;
  absl::Status eraseAll(const std::vector<Victim>& victims, int64_t used_before_us);
  absl::Status sweepBlobs(const v1::RetentionPolicy& policy, bool dry_run, v1::CollectGarbageResponse& response);
  absl::Status eraseBlobs(const std::vector<Victim>& victims, int64_t used_before_us,
                          v1::CollectGarbageResponse& response);

  storage::Store& store_;
  storage::BlobStore& blobs_;
  Clock& clock_;
  const Exclusion exclusion_;
  std::mutex collecting_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace tessera::server
