#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// A tree as a vector of numbers of magnitude around one, for the Q network and the cost model: sizes as base-2
/// logarithms over 8, choices as 0 or 1. It has, in this order:
/// - 4 numbers of the tree: vector bits, phases, leaves that are not copies, size of the slices;
/// - for each of the first kLeaves of these leaves: one number per kernel variant (1 for the leaf's own); 19 numbers of
///   the leaf, such as lanes, points, prefetches and copies; and for each of its first kLoops loops 7 numbers: sizes of
///   the tile, of the innermost and of the outermost block, and positions in the loop orders.
/// Missing leaves and loops have zeros. featureName() names every number.
using Features = std::vector<float>;

inline constexpr int kLeaves = 3, kLoops = 8;

Features featuresOf(const v1::Schedule& schedule);
/// The number of features, the same for all trees.
size_t featureCount();
/// "leaf 0 tile 2", for reports.
std::string featureName(size_t feature);

}  // namespace tessera::compiler::search
