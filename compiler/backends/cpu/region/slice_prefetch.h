#pragma once

#include "compiler/backends/cpu/region/region.h"

/// What later slices read and write of an operand, which the products of a slice can prefetch.
namespace tessera::compiler::codegen {

/// Whether the next slice reads other elements of `input`, from memory outside of the region.
bool movesWithSlices(const Region& region, const Operand& input);

/// The contiguous runs of memory that `access` touches within `nest`; nothing if a stride is negative. `line`: bytes of
/// a cache line.
std::optional<PrefetchedRuns> runsOf(const Access& access, const Nest& nest, int64_t line);

/// The box of elements that `access` walks, if it is contiguous within a slice and moves with the slices.
std::optional<NextBlock> blockOf(const Region& region, const Nest& nest, const Access& access);

/// Whether a step may prefetch blocks of later slices: a product that runs in every slice and is not cut into blocks.
bool canPrefetchBlocks(const Region& region, const RegionNestRun& step);

}  // namespace tessera::compiler::codegen
