#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/queue/step.h"
#include "storage/store.h"
#include "tessera/v1/artifact.pb.h"

/// Notes of what is wanted. A collection (server/retention) deletes what nothing names and nobody wanted of late; what
/// is chosen for it can be claimed until the transaction that deletes it. So whoever builds on an artifact, an object
/// or a blob that is there notes its use in the same transaction in which it looks whether it is there.
namespace tessera::server {

/// Uses are noted this coarsely: what is wanted all the time is not written all the time.
inline constexpr int64_t kUseGrainUs = int64_t{600} * 1'000'000;
/// So long after its last use nothing is deleted, whatever the policy says. Much longer than the grain.
inline constexpr int64_t kLeastKeepUs = int64_t{3600} * 1'000'000;

absl::Status touch(storage::Transaction& tx, storage::Kind kind, const std::string& id, int64_t now_us);

/// Whether the blob is there, and its use is noted.
absl::StatusOr<bool> touchIfPresent(Step& step, const std::string& sha256);

/// What a message names of blobs and artifacts.
std::set<std::string> namedIn(const google::protobuf::Message& message);

/// Notes the use of every one of them, of the project.
absl::Status touchAll(Step& step, const std::string& project, const std::set<std::string>& names);

/// The same of an artifact. What it names is looked at where its own use is not noted yet: as long as it is kept, a
/// collection keeps what it names.
absl::Status touchAll(Step& step, const std::string& project, const v1::Artifact& artifact);

}  // namespace tessera::server
