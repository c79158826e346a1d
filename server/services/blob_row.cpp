#include "server/services/blob_row.h"

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::server {

absl::Status checkRoom(Quotas& quotas, storage::Reader& reader, const std::string& project, int64_t unfinished,
                       int64_t more) {
  const int64_t limit = project.empty() ? 0 : quotas.of(project).stored_bytes();
  if (limit == 0) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(storage::Usage usage, reader.usageOf(project));
  usage.blob_bytes += unfinished;
  return usage.blob_bytes + more <= limit ? absl::OkStatus() : outOfBytes(project, limit, usage);
}

absl::Status putBlobRow(storage::Transaction& tx, storage::BlobStore& blobs, Quotas& quotas, int64_t now_us,
                        const std::string& project, const v1::Digest& digest, int64_t unfinished) {
  if (!blobs.contains(digest.sha256())) {
    return absl::AbortedError(absl::StrCat("blob ", digest.sha256(), " was there and is not any more; send it again"));
  }
  if (!project.empty()) {
    TESSERA_ASSIGN_OR_RETURN(const bool held, tx.mayReadBlob(project, digest.sha256()));
    if (!held) {  // others of the project may have uploaded something meanwhile
      TESSERA_RETURN_IF_ERROR(checkRoom(quotas, tx, project, unfinished, digest.size_bytes()));
    }
  }
  TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, project, now_us));
  return tx.touch(storage::Kind::kBlob, digest.sha256(), now_us);
}

}  // namespace tessera::server
