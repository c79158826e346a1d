#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/snapshots.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// Deletes what the policy no longer keeps, and then the blobs that nothing refers to.
///
/// Candidates are chosen in many short snapshots, so that no snapshot outlives a few hundred rows or a listing of an
/// object store, while the service adds and moves references. Nothing in use is deleted, because of two rules:
/// 1. Each transaction that stores a reference to an artifact, an object or a blob in a row (a job, a result, a
///    task) touches what it refers to, unless it was used in the last 20 minutes (queue/uses.h).
/// 2. The deleting transaction skips what was used later than one hour before the first snapshot.
/// Let a row refer to X when X is about to be deleted. If the reference was stored later than 40 minutes before the
/// first snapshot, then X was used less than an hour before it (rule 1), and rule 2 keeps X. Otherwise the row contains
/// the reference in every snapshot, so the row was visited, and X is no candidate. The order of visits does not matter,
/// and the 40 minutes bound the duration of a transaction and the difference of the servers' clocks. A transaction that
/// touches X and the one that deletes X conflict, so one of them sees the other's effect: X stays, or the former finds
/// that X does not exist.
///
/// Blobs are deleted in two steps: first their rows are durably marked as lost; then the files are deleted, and the
/// rows with them, unless the blob has been uploaded again. Objects of an object store are deleted between the two
/// transactions (Transaction::beginBlobRemoval). At every crash point no row refers to a missing file; a later
/// collection finds the rest.
class Collector {
 public:
  /// Reserves the right to collect, among all servers on the store, until the result is destroyed. ABORTED if another
  /// server collects.
  using Exclusion = std::function<absl::StatusOr<std::shared_ptr<void>>()>;
  /// `exclusion` may be empty: this server is alone.
  Collector(storage::Store& store, storage::BlobStore& blobs, Clock& clock, Exclusion exclusion = {},
            int snapshot_items = storage::kSnapshotItems)
      : store_(store),
        blobs_(blobs),
        clock_(clock),
        exclusion_(std::move(exclusion)),
        snapshot_items_(snapshot_items) {}

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

  /// Calls a function for each item of a kind, with a reader of the item's snapshot.
  using Visit = std::function<absl::Status(storage::Reader& reader, const storage::Stored& stored)>;
  using ForEach = std::function<absl::Status(storage::Kind kind, const Visit& visit)>;
  /// In several short snapshots.
  absl::Status forEach(storage::Kind kind, const Visit& visit) const;

  /// Every SHA-256 that a stored object refers to. `living`: only objects that have not ended or are pinned; otherwise
  /// also the references of each project, as blobReferenceKey().
  absl::Status mark(const ForEach& for_each, bool living, Names& names) const;
  absl::Status mark(bool living, Names& names) const;
  absl::Status chooseJobs(const v1::RetentionPolicy& policy, std::vector<Victim>& jobs,
                          std::vector<Victim>& events) const;
  absl::Status chooseByUse(storage::Kind kind, int64_t keep_us, int64_t keep_bytes, const Names& living,
                           std::vector<Victim>& victims) const;
  absl::Status chooseRecords(int64_t keep_us, std::vector<Victim>& victims) const;
  absl::Status chooseFiles(int64_t age_s, const Names& named, std::vector<Victim>& victims);
  absl::Status eraseAll(const std::vector<Victim>& victims, int64_t used_before_us);
  absl::Status sweepBlobs(const v1::RetentionPolicy& policy, bool dry_run, v1::CollectGarbageResponse& response);
  absl::Status eraseBlobs(const std::vector<Victim>& victims, int64_t used_before_us,
                          v1::CollectGarbageResponse& response);
  /// A blob that is marked as lost, because it is to be deleted.
  struct Lost {
    Victim victim;
    int64_t marked_us = 0;   ///< its last use then
    bool is_object = false;  ///< its bytes are in an object store
    bool removed = false;    ///< the object is deleted
  };
  absl::StatusOr<std::vector<Lost>> loseBlobs(std::span<const Victim> victims, int64_t used_before_us, bool remote);
  absl::Status removeObjects(std::vector<Lost>& lost);

  storage::Store& store_;
  storage::BlobStore& blobs_;
  Clock& clock_;
  const Exclusion exclusion_;
  const int snapshot_items_;  ///< rows that one snapshot visits
  std::mutex collecting_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace tessera::server
