#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Plans prefetches to L2 of the memory that later slices read and write, while this slice's products are computed. The
/// hardware prefetchers do not see across the end of a slice, and short slices would wait for L3 for a tenth of their
/// time. Covers contiguous blocks of the operands and results that are not scratch, provided that those of two slices
/// fit in L2 together with the scratch; the prefetches are spread over the products of a slice, a few lines per step.
void prefetchBlocks(Region& region, const Chip& chip);

/// The box of elements that `access` walks, if it is contiguous within a slice and moves with the slices.
std::optional<NextBlock> blockOf(const Region& region, const Nest& nest, const Access& access);

/// Whether a step may prefetch blocks of later slices: a product that runs in every slice and is not cut into blocks.
bool canPrefetchBlocks(const Region& region, const RegionNestRun& step);

}  // namespace tessera::compiler::codegen
