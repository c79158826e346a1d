#pragma once

#include <array>

namespace tessera {

/// Names of the searches for schedules (`TuneSpec.method`); the first is what is meant where none is named.
///   model         what a cost model expects most of, learned from what was measured before and from the trials
///   q             starts drawn by their speed, and of those the one from which a network, which learns while it
///                 searches, expects a direction to lead farthest
///   walk          starts drawn by their speed; goes where directions of the same type have gained most on average, now
///                 and then anywhere
///   p             the same starts; every direction of each
///   random        any point, any direction
///   evolutionary  offspring of the fastest: one to three steps from one parent, or a step that another one took
inline constexpr std::array<const char*, 6> kSearchMethods = {"model", "q", "walk", "p", "random", "evolutionary"};

}  // namespace tessera
