#pragma once

#include "absl/status/statusor.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::client {

/// The one variant of an artifact with several that --dim and --shape choose; of those for a range the smallest that
/// has room. INVALID_INPUT lists what there is. The manifest must outlive it.
absl::StatusOr<const v1::Manifest::Variant*> chosenVariant(const v1::Manifest& manifest,
                                                           const v1::Specialization& choice);

}  // namespace tessera::client
