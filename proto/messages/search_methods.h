#pragma once

#include <array>

namespace tessera {

/// Names of the search methods (`TuneSpec.method`). The first one is the default.
///   model         proposes what a cost model, trained on earlier records and on the trials, predicts to be fastest
///   q             draws starting points by speed and picks the one with the highest predicted gain of a direction, by
///                 a Q-network that is trained during the search
///   walk          draws starting points by speed; takes the direction type with the highest mean gain so far, and
///                 occasionally a random one
///   p             the same starting points; tries all directions of each
///   random        random points, random directions
///   evolutionary  offspring of the fastest trees: one to three steps from one parent, or a step taken over from
///                 another tree
inline constexpr std::array<const char*, 6> kSearchMethods = {"model", "q", "walk", "p", "random", "evolutionary"};

}  // namespace tessera
