#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Prefetches operands of the next slice while the largest product of a slice runs, a few lines per step of the
/// product. Only operands from outside of the region whose memory consists of short runs far apart are prefetched (rows
/// of an image, one per channel). No hardware prefetcher follows that many streams, and the start of a slice has no
/// computation that could hide the latency of L3.
void prefetchNextSlice(Region& region, const Chip& chip);

/// Whether the next slice reads other elements of `input`, from memory outside of the region.
bool movesWithSlices(const Region& region, const Operand& input);

/// The contiguous runs of memory that `access` touches within `nest`; nothing if a stride is negative. `line`: bytes of
/// a cache line.
std::optional<PrefetchedRuns> runsOf(const Access& access, const Nest& nest, int64_t line);

}  // namespace tessera::compiler::codegen
