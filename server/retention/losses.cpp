#include "server/retention/losses.h"

#include "server/status_macros.h"

namespace tessera::server {

absl::StatusOr<bool> noteLoss(storage::Store& store, storage::BlobStore& blobs, const std::string& sha256) {
  bool lost = false;
  TESSERA_TRY(store.transact([&](storage::Transaction& tx) -> absl::Status {
    TESSERA_ASSIGN(lost, tx.hasBlob(sha256));
    // A disk that cannot say has lost nothing yet.
    lost = lost && absl::IsNotFound(blobs.size(sha256).status());
    return lost ? tx.loseBlob(sha256) : absl::OkStatus();
  }));
  return lost;
}

}  // namespace tessera::server
