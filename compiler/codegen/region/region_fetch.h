#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Lets the largest product of a region ask, evenly over its steps, for what the next slice reads from outside the
/// region in short runs that lie apart (rows of an image, one a channel): no hardware prefetcher follows so many
/// streams, and at the beginning of a slice there is nothing to hide the latency of L3 behind.
void fetchNextSlices(Region& region, const Chip& chip);

/// Whether the next slice reads other elements of `input`, from outside the region.
bool movesWithSlices(const Region& region, const Operand& input);

/// The runs that `access` touches within `nest`; nothing where a stride is negative.
std::optional<FetchedRuns> runsOf(const Access& access, const Nest& nest, int64_t line);

}  // namespace tessera::compiler::codegen
