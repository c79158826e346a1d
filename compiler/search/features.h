#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// A tree as a vector of numbers of magnitude around one, for the Q network and the cost model: sizes as base-2
/// logarithms over 8, choices as 0 or 1. For the first kLeaves computing kernels: variant, vectors, and for their first
/// kLoops loops the tile, the block, and the position in the order.
using Features = std::vector<float>;

inline constexpr int kLeaves = 3, kLoops = 8;

Features featuresOf(const v1::Schedule& schedule);
/// The number of features, the same for all trees.
size_t featureCount();
/// "leaf 0 tile 2", for reports.
std::string featureName(size_t feature);

}  // namespace tessera::compiler::search
