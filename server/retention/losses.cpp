#include "server/retention/losses.h"

#include "proto/support/status_macros.h"

namespace tessera::server {

absl::StatusOr<bool> noteLoss(storage::Store& store, storage::BlobStore& blobs, const std::string& sha256) {
  bool lost = false;
  TESSERA_RETURN_IF_ERROR(store.transact([&](storage::Transaction& tx) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(lost, tx.hasBlob(sha256));
    // A read error does not mean a loss.
    lost = lost && absl::IsNotFound(blobs.size(sha256).status());
    return lost ? tx.markBlobLost(sha256) : absl::OkStatus();
  }));
  return lost;
}

}  // namespace tessera::server
