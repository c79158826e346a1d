#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/tensor.pb.h"

/// Sharing of built objects between projects, if enabled (Rules::share_reproduced): an object is shared once two
/// workers have built identical bytes from the unit. One malicious worker therefore harms no other project.
namespace tessera::server {

/// Records that a worker built this object from the unit. A different object ends the sharing and is logged.
absl::Status noteReproduction(QueueTransaction& queue, const std::string& worker_id, const v1::Digest& unit,
                              const v1::Digest& object);

/// The object of a unit if at least two workers have built it and none has built a different one.
absl::StatusOr<std::optional<v1::Digest>> reproducedObject(QueueTransaction& queue, const v1::Digest& unit);

}  // namespace tessera::server
