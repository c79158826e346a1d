#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/queue/queue_transaction.h"
#include "storage/store.h"
#include "tessera/v1/artifact.pb.h"

/// Times of last use. A collection (server/retention) deletes objects that nothing refers to and that were not used for
/// a while. Code that starts to rely on an artifact, an object or a blob, or stores a reference to it in another row,
/// must touch it in the same transaction, unless that happened at most twice kUseResolutionUs ago. Without this rule a
/// collection could miss the reference (retention/collector.h); retention/collection_races_test.cpp checks it.
namespace tessera::server {

/// Resolution of these times: objects in constant use are not written constantly.
inline constexpr int64_t kUseResolutionUs = int64_t{600} * 1'000'000;
/// Nothing is deleted within this time after its last use, whatever the policy says. Must be much longer than
/// kUseResolutionUs.
inline constexpr int64_t kMinKeepUs = int64_t{3600} * 1'000'000;

absl::Status touch(storage::Transaction& tx, storage::Kind kind, const std::string& id, int64_t now_us);

/// Returns whether the blob exists, and touches it.
absl::StatusOr<bool> touchIfPresent(QueueTransaction& queue, const std::string& sha256);

/// The digests in a message, of blobs and artifacts.
std::set<std::string> digestsIn(const google::protobuf::Message& message);

/// Touches the blobs and artifacts `digests` in the project.
absl::Status touchAll(QueueTransaction& queue, const std::string& project, const std::set<std::string>& digests);

/// Touches an artifact and everything that it refers to. Skips the latter if the artifact was touched recently: a kept
/// artifact keeps its references.
absl::Status touchAll(QueueTransaction& queue, const std::string& project, const v1::Artifact& artifact);

}  // namespace tessera::server
