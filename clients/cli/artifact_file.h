#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// The manifest of an artifact file. INVALID_ARGUMENT when it is none.
absl::StatusOr<v1::Manifest> readManifest(const std::string& path);

/// The Plan an artifact file was built from.
absl::StatusOr<v1::Plan> readPlan(const std::string& path);

}  // namespace tessera::client
