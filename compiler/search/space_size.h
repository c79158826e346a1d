#pragma once

#include "compiler/search/space.h"

namespace tessera::compiler::search {

/// How many points spaces have, as logarithms to the base 10: products of choices, each counted alone.

/// The thesis's space of one node (4.3.2): each parallel loop split into four factors that divide it, each loop that
/// sums into two; by the loops' extents. Orders and the other primitives multiply it by as much for all operators.
double thesisSize(const std::vector<int64_t>& spatial, const std::vector<int64_t>& reductions);
/// Ours, around a tree: for each leaf the tiles and blocks of each loop (divisible or not), orders of its loops, points
/// and sums, loops bound to cores, what is fetched, stages left out; vectors of every width. Loops that `extents` does
/// not know are not counted.
double treeSize(const v1::Schedule& start, const Extents& extents);

/// In how many ways `extent` is a product of `factors` numbers, their order counting.
int64_t factorizations(int64_t extent, int factors);

}  // namespace tessera::compiler::search
