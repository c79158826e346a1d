#include "server/queue/uses.h"

#include <set>

#include "proto/support/status_macros.h"
#include "server/queue/digest_references.h"
#include "storage/stored_key.h"

namespace tessera::server {

absl::Status touch(storage::Transaction& tx, storage::Kind kind, const std::string& id, int64_t now_us) {
  // An object without a row needs no time of use.
  const auto before = tx.lastUse(kind, id);
  if (absl::IsNotFound(before.status())) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(before.status());
  return now_us - *before > kUseResolutionUs ? tx.touch(kind, id, now_us) : absl::OkStatus();
}

absl::StatusOr<bool> touchIfPresent(QueueTransaction& queue, const std::string& sha256) {
  TESSERA_RETURN_IF_ERROR(touch(queue.tx, storage::Kind::kBlob, sha256, queue.now_us));
  return queue.tx.hasBlob(sha256);
}

std::set<std::string> digestsIn(const google::protobuf::Message& message) {
  std::set<std::string> names;
  forEachSha256(message, [&](const std::string& name) { names.insert(name); });
  return names;
}

absl::Status touchAll(QueueTransaction& queue, const std::string& project, const std::set<std::string>& digests) {
  for (const std::string& name : digests) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<storage::Kind> stale,
                             queue.tx.usedBefore(project, name, queue.now_us - kUseResolutionUs));
    for (const storage::Kind kind : stale) {
      TESSERA_RETURN_IF_ERROR(queue.tx.touch(kind, storage::useKey(kind, project, name), queue.now_us));
    }
  }
  return absl::OkStatus();
}

absl::Status touchAll(QueueTransaction& queue, const std::string& project, const v1::Artifact& artifact) {
  const std::string key = storage::storedKey(project, artifact.id());
  const auto before = queue.tx.lastUse(storage::Kind::kArtifact, key);
  if (before.ok() && queue.now_us - *before <= kUseResolutionUs) {
    return absl::OkStatus();
  }
  return touchAll(queue, project, digestsIn(artifact));
}

}  // namespace tessera::server
