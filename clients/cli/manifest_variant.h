#pragma once

#include "absl/status/statusor.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::client {

/// Returns the variant of an artifact that --dim and --shape select; among variants for a range the smallest that is
/// large enough. INVALID_INPUT lists all variants. The manifest must outlive the result.
absl::StatusOr<const v1::Manifest::Variant*> chosenVariant(const v1::Manifest& manifest,
                                                           const v1::Specialization& choice);

}  // namespace tessera::client
