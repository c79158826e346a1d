#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Steps that take turns a few rows at a time, as the tree says. Errors: INVALID_SCHEDULE with the strip's path where
/// they are no passes over the same rows.
absl::Status followStrips(Region& region, const FollowedRegion& followed);

/// What kernels prefetch of the next slices. Errors: INVALID_SCHEDULE with the leaf's path: what is named does not move
/// with the slices, or the kernel cannot prefetch it. Call when scratch has its places.
absl::Status followFetches(Region& region, const Chip& chip, const FollowedRegion& followed);

}  // namespace tessera::compiler::codegen
