#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/tensor.pb.h"

/// What projects share where the operator says so (Rules::share_reproduced): built objects that two workers have made
/// of the same unit, byte for byte, whoever's it was. So one worker that lies harms nobody else's project.
namespace tessera::server {

/// Notes that a worker made this object of a unit. A worker that disagrees with others ends the sharing of this object,
/// and is told of in the log.
absl::Status noteReproduction(Step& step, const std::string& worker_id, const v1::Digest& unit,
                              const v1::Digest& object);

/// The object of a unit that at least two workers agree about and none disagrees; none otherwise.
absl::StatusOr<std::optional<v1::Digest>> reproducedObject(Step& step, const v1::Digest& unit);

}  // namespace tessera::server
