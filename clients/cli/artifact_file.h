#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// Reads the manifest of an artifact file. INVALID_ARGUMENT if the file is not an artifact.
absl::StatusOr<v1::Manifest> readManifest(const std::string& path);

/// Reads the Plan that an artifact file was built from.
absl::StatusOr<v1::Plan> readPlan(const std::string& path);

}  // namespace tessera::client
