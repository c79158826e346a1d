#pragma once

#include <array>

namespace tessera {

/// Names of the searches for schedules (`TuneSpec.method`); the first is what is meant where none is named.
///   walk          starts drawn by their speed; goes where directions of the same type have gained most on average, now
///                 and then anywhere
///   q             the same starts; the direction with the highest Q value of a network that learns while it searches
///   p             the same starts; every direction of each
///   random        any point, any direction
///   evolutionary  offspring of the fastest: one to three steps from one parent, or a step that another one took
///   model         what a cost model expects most of, learned from what was measured before and from the trials
inline constexpr std::array<const char*, 6> kSearchMethods = {"walk", "q", "p", "random", "evolutionary", "model"};

}  // namespace tessera
