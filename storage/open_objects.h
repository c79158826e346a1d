#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/objects/object_store.h"

namespace tessera::storage {

/// INVALID_ARGUMENT unless `place` is a bucket ("s3://...", s3/location.h) or an absolute path. Looks at nothing else.
absl::Status checkObjectsPlace(const std::string& place);

/// Opens the object store at such a place. A folder that is `known`, used before, must have its mark. Afterwards the
/// environment has no S3 credentials (s3/credentials.h).
absl::StatusOr<std::unique_ptr<ObjectStore>> openObjects(const std::string& place, bool known);

}  // namespace tessera::storage
