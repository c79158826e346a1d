#pragma once

#include "absl/status/status.h"
#include "compiler/backends/cpu/region/region.h"
#include "compiler/backends/cpu/tree/parsed_schedule.h"

namespace tessera::compiler::codegen {

/// Forms the strips that the tree names. The steps of a strip run together, a few rows at a time. Errors:
/// INVALID_SCHEDULE with the strip's path if the steps are not passes over the same rows.
absl::Status applyStrips(Region& region, const ParsedRegion& tree);

/// Sets the prefetches of the next slices' operands that the tree names. Errors: INVALID_SCHEDULE with the leaf's path
/// if the named operand does not move with the slices, or the kernel cannot prefetch it. Call once the scratch offsets
/// are fixed.
absl::Status applyPrefetches(Region& region, const Chip& chip, const ParsedRegion& tree);

}  // namespace tessera::compiler::codegen
