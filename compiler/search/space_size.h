#pragma once

#include "compiler/search/space.h"

namespace tessera::compiler::search {

/// Sizes of schedule spaces, as base-10 logarithms: products of the numbers of choices, each counted independently.

/// The thesis's space of one node (4.3.2) for loops of these extents: each parallel loop split into four factors, each
/// reduction loop into two. Orders and other primitives multiply it by the same factor for all operators.
double thesisSize(const std::vector<int64_t>& spatial, const std::vector<int64_t>& reductions);
/// The size of Tessera's space around a tree: for each leaf the tiles and blocks of each loop (divisible or not),
/// orders of its loops, points and sums, loops bound to cores, prefetches, removed stages; vectors of every width.
/// Loops missing from `extents` are not counted.
double treeSize(const v1::Schedule& start, const Extents& extents);

/// The number of ordered factorizations of `extent` into `factors` numbers.
int64_t factorizations(int64_t extent, int factors);

}  // namespace tessera::compiler::search
