#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Plans prefetches to L2 of the memory that later slices read and write, while this slice's products are computed.
/// Hardware prefetchers do not anticipate the next slice's addresses, and short slices would wait for L3 for a tenth of
/// their time. Covers operands and results outside of the scratch whose memory in one slice is a contiguous block. The
/// blocks of two slices and the scratch must fit in L2 together. The prefetches are spread over the products of a
/// slice, a few lines per step.
void prefetchBlocks(Region& region, const Chip& chip);

/// The box of elements that `access` walks, if it is contiguous within a slice and moves with the slices.
std::optional<NextBlock> blockOf(const Region& region, const Nest& nest, const Access& access);

/// Whether a step may prefetch blocks of later slices: a product that runs in every slice and is not cut into blocks.
bool canPrefetchBlocks(const Region& region, const RegionNestRun& step);

}  // namespace tessera::compiler::codegen
