#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// What later slices read and write comes to L2 while this one's products are computed: the caches' own prefetchers do
/// not see a slice's end, and short slices would wait for L3 for a tenth of their time. Contiguous blocks of the
/// operands and results that are no scratch, where those of two slices fit into L2 beside it; spread over the products
/// of a slice, few lines a step.
void planPrefetch(Region& region, const Chip& chip);

/// The box of elements that `access` walks, when it is contiguous but for its slice and moves with the slices.
std::optional<NextBlock> blockOf(const Region& region, const Nest& nest, const Access& access);

/// Whether a step may prefetch blocks of later slices: products in every slice, not cut into blocks.
bool takesPrefetch(const Region& region, const RegionStep& step);

}  // namespace tessera::compiler::codegen
