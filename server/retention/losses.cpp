#include "server/retention/losses.h"

namespace tessera::server {

absl::Status noteLoss(storage::Store& store, storage::BlobStore& blobs, const std::string& sha256) {
  return store.transact([&](storage::Transaction& tx) {
    // A disk that cannot say has lost nothing yet.
    return absl::IsNotFound(blobs.size(sha256).status()) ? tx.loseBlob(sha256) : absl::OkStatus();
  });
}

}  // namespace tessera::server
