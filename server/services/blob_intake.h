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

/// Takes in blobs that come whole within a message, and tells which are there already.
class BlobIntake {
 public:
  BlobIntake(Clock& clock, storage::Store& store, storage::BlobStore& blobs, Quotas& quotas, const Limits& limits)
      : clock_(clock), store_(store), blobs_(blobs), quotas_(quotas), limits_(limits) {}

  struct Sent {
    std::string field;  ///< where its digest stands in the request
    const v1::Digest& digest;
    const std::string& data;
  };
  struct Outcome {
    absl::Status status;
    bool existed = false;
  };

  /// One outcome for each, in the same order; what is OK is durable, belongs to the caller's project, and is not
  /// collected soon. Of what is there and in use nothing is written. A status of its own says that nothing was taken
  /// in.
  absl::StatusOr<std::vector<Outcome>> take(const Caller& caller, const std::vector<Sent>& sent);

  /// Whether the bytes of all are what their digests say.
  absl::Status check(const std::vector<Sent>& sent) const;
  /// Whether all may be stored within a transaction, since their bytes become rows.
  bool becomeRows(const std::vector<Sent>& sent) const;
  /// Of checked ones that become rows: stores what `project` lacks of them, as a part of the caller's transaction.
  absl::Status storeWithin(const std::string& project, const std::vector<Sent>& sent);

  /// Of these, those that are there with row and file and that the caller may read; they will be named soon, so no
  /// collection takes them now.
  absl::StatusOr<std::set<std::string>> claimPresent(const Caller& caller, const std::vector<std::string>& sha256s);

 private:
  /// Whether the bytes are what the digest says.
  absl::Status checkBytes(const Sent& blob) const;
  /// Stores the file of one for which there is room, where its bytes do not become a row. Its rows are put later, with
  /// those of others.
  absl::Status storeFile(const std::string& project, const Sent& blob);
  /// The row that says it is there, and that of its bytes.
  absl::Status storeRows(const std::string& project, const Sent& blob);

  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  Quotas& quotas_;
  const Limits& limits_;
};

}  // namespace tessera::server
