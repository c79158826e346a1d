#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// One decision changed by one step (thesis, 4.3: neighbours lie along typed directions).
struct Direction {
  /// tile    iterations in the register tile along `dimension`; its loops, and panels of that width, follow
  /// pair    the thesis's direction (i, j): the tile grows along the first of two loops and shrinks along the second
  /// block   steps of a block loop around the tiles, or around smaller blocks; added, scaled, or removed
  /// order   two neighbouring loops, points or sums are exchanged
  /// bind    the outermost temporal loop becomes spatial, or the innermost spatial one temporal; nests of a phase run
  ///         concurrently on parts of the units, or one after another on all of them
  /// fetch   prefetches, including those of copies within blocks; interleaving of the points' operations
  /// stage   a copy to panels is removed
  /// slices  extent of a region's slices, and of the parts in which they follow each other
  /// vectors half or twice as wide vectors everywhere
  /// lanes   vectors move to another parallel or reduction loop
  /// variant another kernel for the nest
  std::string kind;
  std::string path;       ///< of the tile, "0.2.1"
  std::string dimension;  ///< or another subject, depending on the kind
  std::string change;     ///< "x2", "/2", "+1", ...

  /// The common name of such directions of different tiles: experience with one applies to the others.
  std::string type() const { return kind + " " + dimension + " " + change; }

  /// The direction that undoes this step: "/2" for "x2", the pair (j, i) for (i, j). Its kind is empty if no direction
  /// is named so.
  Direction opposite() const;
};

struct Neighbour {
  Direction direction;
  v1::Schedule schedule;
  std::string text;  ///< the schedule, printed
};

/// Extents of loops by nest and name: "i0", "r2".
using Extents = std::map<std::pair<int, std::string>, int64_t>;

/// Trees one step from `schedule`, in a fixed order, each different from it. Tiles grow to the full length of a loop,
/// and to its next divisors, if `extents` has the length. Legality decides whether a tree is valid, as far as that is
/// possible without knowing the nests.
std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule, const Extents& extents = {});

}  // namespace tessera::compiler::search
