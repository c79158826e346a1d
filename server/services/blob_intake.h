#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/access/access.h"
#include "server/access/quotas.h"
#include "server/clock.h"
#include "server/limits.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Stores blobs that arrive whole within a message, and reports which exist already.
class BlobIntake {
 public:
  BlobIntake(Clock& clock, storage::Store& store, storage::BlobStore& blobs, Quotas& quotas, const Limits& limits)
      : clock_(clock), store_(store), blobs_(blobs), quotas_(quotas), limits_(limits) {}

  struct Sent {
    std::string field;  ///< field of the request that has the digest
    const v1::Digest& digest;
    const std::string& data;
  };
  struct Outcome {
    absl::Status status;
    bool existed = false;
  };

  /// Returns one outcome for each blob, in order. A blob with an OK outcome is durable, belongs to the caller's
  /// project, and is not collected soon. Nothing is written for a blob that exists and was used recently. An error
  /// status means that nothing was stored.
  absl::StatusOr<std::vector<Outcome>> take(const Caller& caller, const std::vector<Sent>& sent);

  /// Checks that the bytes of all match their digests.
  absl::Status check(const std::vector<Sent>& sent) const;
  /// Whether all are small enough to be stored in the database instead of in files (BlobStore::becomesRow). Then one
  /// transaction can store them together with other rows.
  bool becomeRows(const std::vector<Sent>& sent) const;
  /// Stores the blobs that `project` lacks, as part of the caller's transaction. check() and becomeRows() must have
  /// accepted them.
  absl::Status storeWithin(const std::string& project, const std::vector<Sent>& sent);

  /// Of these blobs, the ones that exist and that the caller may read. Touches them, since the caller will refer to
  /// them soon.
  absl::StatusOr<std::set<std::string>> claimPresent(const Caller& caller, const std::vector<std::string>& sha256s);

 private:
  /// Checks that the bytes match the digest.
  absl::Status checkBytes(const Sent& blob) const;
  /// Checks the project's quota, and stores the file of a blob, unless the blob is small enough for the database. Its
  /// rows are stored later, together with others.
  absl::Status storeFile(const std::string& project, const Sent& blob);
  /// Stores the rows of the blob and of its bytes.
  absl::Status storeRows(const std::string& project, const Sent& blob);

  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  Quotas& quotas_;
  const Limits& limits_;
};

}  // namespace tessera::server
