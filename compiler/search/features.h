#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// A tree as numbers of about the size of one, for the Q network and the cost model: sizes as logarithms to the base 2
/// over 8, choices as 0 or 1. Of the first kLeaves kernels that compute: variant, vectors, and of their first kLoops
/// loops the tile, the block, and where they stand in the order.
using Features = std::vector<float>;

inline constexpr int kLeaves = 3, kLoops = 8;

Features featuresOf(const v1::Schedule& schedule);
/// How many there are of any tree.
size_t featureCount();
/// "leaf 0 tile 2", for people.
std::string featureName(size_t feature);

}  // namespace tessera::compiler::search
