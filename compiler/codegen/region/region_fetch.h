#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Lets the largest product of a region ask, evenly over its steps, for what the next slice reads from outside the
/// region in short runs that lie apart (rows of an image, one a channel): no hardware prefetcher follows so many
/// streams, and at the beginning of a slice there is nothing to hide the latency of L3 behind.
void fetchNextSlices(Region& region, const Machine& machine);

}  // namespace tessera::compiler::codegen
