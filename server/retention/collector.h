#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// Deletes what the policy no longer keeps, and then the blobs that nothing names.
///
/// What is deleted is chosen on a snapshot and asked about again in the transaction that deletes it: all that claims an
/// artifact, an object or a blob after the snapshot (a job, a lookup before an upload, a result) notes its use within
/// the claim's own transaction (scheduler/uses.h), and there is one writer. Blobs go in two steps: their rows say that
/// they are lost, durably; then their files go, and the rows with them, of those that nobody has sent again. Whatever
/// ends in between, no row speaks of a file that is gone; what is left a later collection finds.
class Collector {
 public:
  Collector(storage::Store& store, storage::BlobStore& blobs, Clock& clock)
      : store_(store), blobs_(blobs), clock_(clock) {}

  /// ABORTED while another one is at it.
  absl::StatusOr<v1::CollectGarbageResponse> collect(const v1::RetentionPolicy& policy, bool dry_run);

  /// What does not fit: things that name blobs that are not there, or of another size; with `read_blobs` damaged files
  /// too.
  absl::StatusOr<v1::VerifyStorageResponse> verify(bool read_blobs);

  /// Deletes one thing of a project at the operator's word. NOT_FOUND without it, FAILED_PRECONDITION while something
  /// needs it or it is pinned.
  absl::Status erase(const v1::DeleteRequest& request, const std::string& project);

  /// Ends a collection early; from any thread.
  void stop() { stopping_ = true; }

 private:
  using Names = std::unordered_set<std::string>;
  struct Victim {
    storage::Kind kind;
    std::string id;
    int64_t bytes = 0;
  };

  /// Every SHA-256 that anything stored names; `living`: only what is not yet over, or is pinned; otherwise also, as
  /// holdKey(), what things of each project name.
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
  std::mutex collecting_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace tessera::server
