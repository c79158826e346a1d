#pragma once

#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// Prefetches operands of the next slice while the largest product of a slice runs, a few lines per step of the
/// product. Only operands from outside of the region whose memory consists of short runs far apart are prefetched (rows
/// of an image, one per channel). No hardware prefetcher follows that many streams, and the start of a slice has no
/// computation that could hide the latency of L3.
void prefetchNextSlice(Region& region, const Chip& chip);

/// Plans prefetches to L2 of the memory that later slices read and write, while this slice's products are computed.
/// Hardware prefetchers do not anticipate the next slice's addresses, and short slices would wait for L3 for a tenth of
/// their time. Covers operands and results outside of the scratch whose memory in one slice is a contiguous block. The
/// blocks of two slices and the scratch must fit in L2 together. The prefetches are spread over the products of a
/// slice, a few lines per step.
void prefetchBlocks(Region& region, const Chip& chip);

}  // namespace tessera::compiler::codegen
