#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Lets the largest product of a region prefetch, evenly over its steps, the operands of the next slice that come from
/// outside of the region in short runs far apart (rows of an image, one per channel). No hardware prefetcher follows
/// that many streams, and the start of a slice has no computation that could hide the latency of L3.
void prefetchNextSlice(Region& region, const Chip& chip);

/// Whether the next slice reads other elements of `input`, from memory outside of the region.
bool movesWithSlices(const Region& region, const Operand& input);

/// The runs that `access` touches within `nest`; nothing where a stride is negative.
std::optional<PrefetchedRuns> runsOf(const Access& access, const Nest& nest, int64_t line);

}  // namespace tessera::compiler::codegen
